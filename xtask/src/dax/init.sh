#!/bin/busybox sh
# The guest's only script. The kernel's command line says what to do: everbyte=format,tests or everbyte=write,SEED ..
# Every line the host waits for starts with a fixed word: READY, ACK, DONE, FAILED.
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm
off() { sync; echo "$@"; poweroff -f; sleep 60; }
for module in /modules/*; do insmod "$module" || off "FAILED insmod $module"; done
task=$(sed -n 's/.*everbyte=\([^ ]*\).*/\1/p' /proc/cmdline)

# The NVDIMM appears a moment after its driver. A formatted one is /dev/pmem0 at once.
for i in 1 2 3 4 5 6 7 8 9 10; do [ -e /dev/pmem0 ] && break; sleep 0.2; done
case $task in
format*)
    ndctl create-namespace -f -e namespace0.0 -m fsdax -M mem >/tmp/ndctl 2>&1 || { cat /tmp/ndctl; off "FAILED ndctl"; }
    mkfs.ext4 -q -b 4096 -E stride=512,stripe_width=512 /dev/pmem0 || off "FAILED mkfs"
    ;;
esac
mount -t ext4 -o dax /dev/pmem0 /mnt || off "FAILED mount -o dax"
ip link set lo up
ulimit -c 0
uname -r >/mnt/kernel
echo "READY $(uname -r)"
case $task in
*tests)
    mkdir -p /mnt/tmp
    /test/suite-writer probe /mnt || off "FAILED probe"
    export TMPDIR=/mnt/tmp RUST_BACKTRACE=1
    for program in /test/tests-*; do
        cd "/crate/${program##*/}"
        echo "RUN ${program##*/}"
        "$program" --test-threads 2 --exact $(cat "/list/${program##*/}") || off "FAILED $program"
        rm -rf /mnt/tmp/*
    done
    umount /mnt
    off DONE
    ;;
write,*)
    seed=${task#write,}
    /test/suite-writer write /mnt/acked.store --backend pmem --seed "$seed" || off "FAILED write"
    off DONE
    ;;
esac
off "FAILED no such task: $task"
