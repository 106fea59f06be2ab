#!/bin/bash
# Runs xfstests on mounts of two volumes; the arguments are those of its `check`. The caller gives
# EVERBYTE_XFSTESTS (the built suite), EVERBYTE_TEST_DAEMON, EVERBYTE_TEST_BACKEND and FOLDER, in
# which the stores `test` and `scratch` lie.
#
# All that it mounts, and the users that the suite needs, are in a mount namespace of their own.
# The suite and the mounts lie below /tmp there, since those users may be kept from the rest.
set -eu
if [ "${1-}" != inside ]; then
    exec unshare --mount --propagation private bash "$0" inside "$@"
fi
shift
here=$(dirname "$(realpath "$0")")
points=$(mktemp -d)
chmod 755 "$points"
mkdir "$points/suite" "$points/test" "$points/scratch" "$FOLDER/bin"
ln -s "$here/mount.sh" "$FOLDER/bin/mount"
cp -p /etc/passwd /etc/group /etc/shadow "$FOLDER"
id=7001
for user in fsgqa fsgqa2 123456-fsgqa; do
    echo "$user:x:$id:$id::/tmp:/bin/bash" >>"$FOLDER/passwd"
    echo "$user:x:$id:" >>"$FOLDER/group"
    echo "$user:*:19000:0:99999:7:::" >>"$FOLDER/shadow"
    id=$((id + 1))
done
for file in passwd group shadow; do
    mount --bind "$FOLDER/$file" "/etc/$file"
done
mount --bind "$EVERBYTE_XFSTESTS" "$points/suite"
cat >"$FOLDER/config" <<END
export TEST_DEV=$FOLDER/test:home TEST_DIR=$points/test
export SCRATCH_DEV=$FOLDER/scratch:home SCRATCH_MNT=$points/scratch
export FSTYP=fuse FUSE_SUBTYP=.everbyte
END
export HOST_OPTIONS=$FOLDER/config RESULT_BASE=$FOLDER/results PATH=$FOLDER/bin:$PATH
cd "$points/suite"
ulimit -n "$(ulimit -Hn)"
# These two lower the limit of file sizes, and raise it again.
(ulimit -f 1000 && ulimit -f unlimited) 2>/dev/null || set -- -e generic/394,generic/564 "$@"
status=0
./check -E "$here/exclude" "$@" </dev/null || status=$?
cd /
for point in test scratch suite; do
    /bin/umount "$points/$point" 2>/dev/null || true
    rmdir "$points/$point" || true
done
rmdir "$points" || true
exit $status
