//! Locks of programs over a mount, which the kernel keeps: of processes, of open files, of whole
//! files.

use crate::harness::{Mounted, works};
use crate::programs::{has, run};
use everbyte_media::BackendChoice;
use std::fs;

/// A child holds locks of each kind; its parent is refused them, asks for its owner, and gets them
/// when the child has ended. Prints each refusal.
const HELD: &str = r#"
import errno, fcntl, os, struct, sys
F_OFD_GETLK, F_OFD_SETLK = 36, 37
def lock(kind, start, length): return struct.pack('hhqqi4x', kind, 0, start, length, 0)
def refused(call):
    try:
        call()
        return 'granted'
    except OSError as error:
        return errno.errorcode[error.errno]
def apart(start): # its owner is its open file, so that a process has two
    return lambda file: fcntl.fcntl(file, F_OFD_SETLK, lock(fcntl.F_WRLCK, start, 10))
ready, going = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(going[1])
    posix, ofd, whole = (open(name, 'r+b') for name in ('posix', 'ofd', 'whole'))
    fcntl.lockf(posix, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
    apart(0)(ofd)
    fcntl.flock(whole, fcntl.LOCK_SH)
    os.write(ready[1], b'r')
    os.read(going[0], 1)
    os._exit(0)
os.close(going[0])
os.read(ready[0], 1)
posix, ofd, whole = (open(name, 'r+b') for name in ('posix', 'ofd', 'whole'))
ask = {
    'posix': lambda: fcntl.lockf(posix, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 9),
    'ofd': lambda: apart(5)(ofd),
    'ofd against posix': lambda: apart(0)(posix),
    'posix against ofd': lambda: fcntl.lockf(ofd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0),
    'flock': lambda: fcntl.flock(whole, fcntl.LOCK_EX | fcntl.LOCK_NB),
}
fcntl.lockf(posix, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 10) # beside
fcntl.flock(whole, fcntl.LOCK_SH | fcntl.LOCK_NB)
owner = struct.unpack('hhqqi4x', fcntl.fcntl(posix, fcntl.F_GETLK, lock(fcntl.F_WRLCK, 0, 1)))
print('owner', owner[4] == child)
for name, call in ask.items(): print(name, refused(call))
os.close(going[1])
os.waitpid(child, 0)
for name in ('posix', 'ofd', 'flock'): print(name, refused(ask[name]))
"#;

/// Two processes wait for each other's ranges: one of them is refused.
const DEADLOCK: &str = r#"
import errno, fcntl, os
file = open('posix', 'r+b')
fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
ready = os.pipe()
child = os.fork()
if child == 0:
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 1)
    os.write(ready[1], b'r')
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
    os._exit(7)
os.read(ready[0], 1)
while ' -> ' not in ''.join(line for line in open('/proc/locks') if ' %d ' % child in line): pass
try:
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 1)
except OSError as error:
    print(error.errno == errno.EDEADLK)
fcntl.lockf(file, fcntl.LOCK_UN, 1, 0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

#[test]
fn locks_of_each_kind_are_kept_apart() {
    if !works() || !has("python3") {
        return;
    }
    let on = Mounted::on(BackendChoice::Shm, tempfile::tempdir_in("/dev/shm").unwrap(), "");
    for name in ["posix", "ofd", "whole"] {
        fs::write(on.path(name), [0; 100]).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let python = |script: &str| {
        fs::write(folder.path().join("script"), script).unwrap();
        run(&on.at, &format!("timeout -s KILL 60 python3 {}/script", folder.path().display()))
    };
    let refused = "owner True\nposix EAGAIN\nofd EAGAIN\nofd against posix EAGAIN\n\
                   posix against ofd EAGAIN\nflock EAGAIN\n";
    assert_eq!(python(HELD), format!("{refused}posix granted\nofd granted\nflock granted\n"));
    assert_eq!(python(DEADLOCK), "True\n7\n");
}
