#!/bin/bash
# mount(8) as xfstests calls it. `-t fuse.everbyte STORE:VOLUME DIRECTORY` starts the daemon of the
# tests; a remount goes past the helper of FUSE (`-i`), and again while the kernel has not told the
# daemon of the last closed file; all else is for mount(8).
if [[ " $* " != *" fuse.everbyte "* && " $* " != *remount* ]]; then
    exec /bin/mount "$@"
fi
options=
places=()
while [ $# -gt 0 ]; do
    case $1 in
    -t) shift ;;
    -o) options+=,$2 && shift ;;
    -o*) options+=,${1#-o} ;;
    *) places+=("$1") ;;
    esac
    shift
done
options=${options#,}
if [[ $options == *remount* ]]; then
    for _ in $(seq 100); do
        said=$(/bin/mount -i -o "$options" "${places[@]}" 2>&1) && exit
        sleep 0.02
    done
    echo "$said" >&2
    exit 32
fi
store=${places[0]%:*} at=$(realpath "${places[1]}")
is_mounted() { grep -q " $at .* - fuse[. ]" /proc/self/mountinfo && stat -f "$at" >/dev/null 2>&1; }
if is_mounted; then
    echo "mount: $at is busy" >&2
    exit 32
fi
export EVERBYTE_TEST_MOUNT="$store"$'\n'"$at"$'\n'"$options"$'\n'"$EVERBYTE_TEST_BACKEND"
setsid "$EVERBYTE_TEST_DAEMON" --exact harness::daemon --nocapture </dev/null >>"$FOLDER/daemons" 2>&1 &
daemon=$!
until is_mounted; do
    if ! kill -0 $daemon 2>/dev/null; then
        tail -n 5 "$FOLDER/daemons" >&2
        exit 32
    fi
    sleep 0.01
done
