//! Calls on open files.

use crate::calls::{Answer, Outcome, done, errno, number, text};
use crate::{new_files, seeds};
use everbyte_posix::{AllocateMode, OpenFile, OpenFlags, Result, Seek, User};
use everbyte_workload::Random;

#[derive(Clone, Debug)]
enum Call {
    Read(usize),
    ReadAt(usize, u64),
    Write(Vec<u8>),
    WriteAt(Vec<u8>, u64),
    Seek(Seek),
    SetSize(u64),
    Allocate(AllocateMode, u64, u64),
    /// Within the file, or from it to the other one.
    Copy {
        at: u64,
        to_other: bool,
        to_at: u64,
        len: u64,
    },
    Size,
}

const MOST: u64 = 40_000;

fn call(random: &mut Random) -> Call {
    let mut at = |most: u64| match random.below(4) {
        0 => random.below(most / 4096 + 1) * 4096,
        1 => random.below(200),
        _ => random.below(most),
    };
    let (from, to, len) = (at(MOST), at(MOST), at(12_000));
    let bytes = |random: &mut Random, len: u64| vec![1 + random.below(255) as u8; len as usize];
    match random.below(20) {
        0..2 => Call::Read(len as usize),
        2..4 => Call::ReadAt(len as usize, from),
        4..6 => Call::Write(bytes(random, len)),
        6..10 => Call::WriteAt(bytes(random, len), from),
        10 => Call::Seek(Seek::Start(from)),
        11 => Call::Seek(Seek::Current(to as i64 - from as i64)),
        12 => Call::Seek(Seek::End(1000 - from as i64)),
        13 => Call::SetSize(from),
        14..16 => {
            let modes = [
                AllocateMode::empty(),
                AllocateMode::KEEP_SIZE,
                AllocateMode::PUNCH_HOLE | AllocateMode::KEEP_SIZE,
                AllocateMode::PUNCH_HOLE,
            ];
            Call::Allocate(modes[random.below(4) as usize], from, len)
        }
        16..18 => Call::Copy { at: from, to_other: random.below(2) == 0, to_at: to, len },
        _ => Call::Size,
    }
}

fn ours(file: &OpenFile, other: &OpenFile, call: &Call) -> Answer {
    let read = |result: Result<usize>, mut bytes: Vec<u8>| {
        result.map(|len| {
            bytes.truncate(len);
            Outcome::Bytes(bytes)
        })
    };
    let count = |result: Result<usize>| result.map(|count| Outcome::Number(count as u64));
    let answer = match call {
        Call::Read(len) => {
            let mut bytes = vec![0; *len];
            read(file.read(&mut bytes), bytes)
        }
        Call::ReadAt(len, at) => {
            let mut bytes = vec![0; *len];
            read(file.read_at(&mut bytes, *at), bytes)
        }
        Call::Write(bytes) => count(file.write(bytes)),
        Call::WriteAt(bytes, at) => count(file.write_at(bytes, *at)),
        Call::Seek(to) => file.seek(*to).map(Outcome::Number),
        Call::SetSize(size) => file.set_size(*size).map(|()| Outcome::Done),
        Call::Allocate(mode, at, len) => file.allocate(*mode, *at, *len).map(|()| Outcome::Done),
        Call::Copy { at, to_other, to_at, len } => {
            let to = if *to_other { other } else { file };
            file.copy_range(*at, to, *to_at, *len).map(Outcome::Number)
        }
        Call::Size => file.status().map(|status| Outcome::Number(status.size)),
    };
    answer.map_err(|error| error.errno().0)
}

fn theirs(file: i32, other: i32, call: &Call) -> Answer {
    let read = |len: isize, mut bytes: Vec<u8>| {
        bytes.truncate(usize::try_from(len).map_err(|_| errno())?);
        Ok(Outcome::Bytes(bytes))
    };
    // SAFETY: the files are open; all buffers have the length that is passed.
    unsafe {
        match call {
            Call::Read(len) => {
                let mut bytes = vec![0_u8; *len];
                read(libc::read(file, bytes.as_mut_ptr().cast(), *len), bytes)
            }
            Call::ReadAt(len, at) => {
                let mut bytes = vec![0_u8; *len];
                read(libc::pread(file, bytes.as_mut_ptr().cast(), *len, *at as i64), bytes)
            }
            Call::Write(bytes) => number(libc::write(file, bytes.as_ptr().cast(), bytes.len()) as i64),
            Call::WriteAt(bytes, at) => {
                number(libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), *at as i64) as i64)
            }
            Call::Seek(to) => {
                let (offset, whence) = match *to {
                    Seek::Start(at) => (at as i64, libc::SEEK_SET),
                    Seek::Current(by) => (by, libc::SEEK_CUR),
                    Seek::End(by) => (by, libc::SEEK_END),
                    Seek::Data(at) => (at as i64, libc::SEEK_DATA),
                    Seek::Hole(at) => (at as i64, libc::SEEK_HOLE),
                };
                number(libc::lseek(file, offset, whence))
            }
            Call::SetSize(size) => done(libc::ftruncate(file, *size as i64)),
            Call::Allocate(mode, at, len) => done(libc::fallocate(file, mode.bits() as i32, *at as i64, *len as i64)),
            Call::Copy { at, to_other, to_at, len } => {
                let to = if *to_other { other } else { file };
                let (mut at, mut to_at) = (*at as i64, *to_at as i64);
                let len = *len as usize;
                number(libc::copy_file_range(file, &mut at, to, &mut to_at, len, 0) as i64)
            }
            Call::Size => {
                let mut status = std::mem::zeroed::<libc::stat>();
                libc::fstat(file, &mut status);
                Ok(Outcome::Number(status.st_size as u64))
            }
        }
    }
}

/// Offsets, bytes and errno of open files are the kernel's, whatever the flags of opening.
#[test]
fn calls_on_open_files_answer_what_the_kernel_answers() {
    let ways = [
        OpenFlags::RDWR,
        OpenFlags::RDWR | OpenFlags::APPEND,
        OpenFlags::WRONLY,
        OpenFlags::empty(),
        OpenFlags::RDWR | OpenFlags::DSYNC,
    ];
    for (seed, way) in seeds().flat_map(|seed| ways.map(|way| (seed, way))) {
        let folder = tempfile::tempdir().unwrap();
        let (_store, files) = new_files();
        let process = files.process(User::root()).unwrap();
        let flags = OpenFlags::CREAT | way;
        let names = ["one", "other"];
        let [file, other] = names.map(|name| process.open(name, flags, 0o644).unwrap());
        let descriptors = names.map(|name| {
            let path = text(folder.path().join(name).as_os_str().as_encoded_bytes());
            // SAFETY: the path ends with a zero byte.
            unsafe { libc::open(path.as_ptr(), flags.bits() as i32, 0o644) }
        });
        let mut random = Random::new(seed);
        for step in 0..300 {
            let call = call(&mut random);
            let (our, their) = (ours(&file, &other, &call), theirs(descriptors[0], descriptors[1], &call));
            assert!(our == their, "seed {seed}, {way:?}, step {step}, {call:?}:\n{our:.200?}\n{their:.200?}");
        }
        for (name, file) in names.into_iter().zip([&file, &other]) {
            let content = std::fs::read(folder.path().join(name)).unwrap();
            let again = process.open(name, OpenFlags::empty(), 0).unwrap();
            let mut bytes = vec![0; content.len() + 1];
            let len = again.read(&mut bytes).unwrap();
            assert!(bytes[..len] == content, "seed {seed}, {way:?}, {name} of {} bytes", file.status().unwrap().size);
        }
        // SAFETY: the files are open, and not used again.
        descriptors.into_iter().for_each(|file| assert_eq!(unsafe { libc::close(file) }, 0));
        assert_eq!(files.volume().check(), Vec::new());
    }
}
