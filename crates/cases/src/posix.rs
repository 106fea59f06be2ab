//! Cases of the POSIX calls: those that change several parts of files in one step.
//!
//! The twin is a text of all files, which the same calls on a volume without crashes have given.

use crate::Case;
use crate::fs::{image, open};
use everbyte_fs::{FileKind, Ino, Volume};
use everbyte_media::{Media, Options};
use everbyte_posix::acl::Tag;
use everbyte_posix::{Acl, Files, FilesOptions, NewTime, OpenFlags, Process, RenameFlags, Result, SetXattr, User};
use everbyte_sim::{Explorer, Failure, Order, Report, Seen, Twin};

pub(crate) const CASES: &[Case] = &[Case {
    name: "posix-calls",
    crate_name: "posix",
    about: "calls that change modes with lists, names with whiteouts, and unnamed files",
    total: 9000,
    program,
}];

type Call = (&'static str, fn(&Process) -> Result<()>);

const MAKE: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

fn list(group: u16, user: u16) -> Vec<u8> {
    let entries =
        vec![(Tag::Owner, 7), (Tag::User(1001), user), (Tag::OwningGroup, group), (Tag::Mask, 7), (Tag::Other, 1)];
    Acl::new(entries).expect("a whole list").bytes()
}

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Each of these is one step.
const CALLS: &[Call] = &[
    ("a directory with a mode", |process| process.make_directory("team", 0o2775).map(drop)),
    ("a list for new files", |process| process.set_xattr("team", DEFAULT, &list(5, 6), SetXattr::Any)),
    ("a file that inherits", |process| process.open("team/report", MAKE, 0o640).map(drop)),
    ("a directory that inherits", |process| process.make_directory("team/sub", 0o750).map(drop)),
    ("a pipe that inherits", |process| process.make_node("team/sub/pipe", FileKind::Pipe, 0o622, 0).map(drop)),
    ("another list", |process| process.set_xattr("team/report", ACCESS, &list(4, 2), SetXattr::Any)),
    ("a mode, and the mask with it", |process| process.set_mode("team/report", 0o604)),
    ("a tool", |process| process.open("tool", MAKE, 0o4755).map(drop)),
    ("an owner, without the set-id bit", |process| process.set_owner("tool", Some(1001), Some(2001))),
    ("a rename that leaves a whiteout", |process| process.rename("tool", "team/moved", RenameFlags::WHITEOUT)),
    ("one that replaces", |process| process.rename("team/report", "team/moved", RenameFlags::WHITEOUT)),
    ("a whiteout goes", |process| process.remove("tool")),
    ("a mode alone, the list goes", |process| {
        process.set_xattr("team/sub", ACCESS, &Acl::of_mode(0o711).bytes(), SetXattr::Any)
    }),
    ("an unnamed file gets a name", |process| {
        let file = process.open("team", OpenFlags::TMPFILE | OpenFlags::RDWR, 0o600)?;
        file.write(&[7; 5000])?;
        process.link_open(&file, "team/final")
    }),
    ("times", |process| process.set_times("team/final", NewTime::At(5), NewTime::At(6))),
    ("no list for new files", |process| process.remove_xattr("team", DEFAULT)),
    ("two names change places", |process| process.rename("team/final", "team/sub", RenameFlags::EXCHANGE)),
];

fn process(volume: &Volume) -> Process {
    let process = Files::new(volume.clone(), FilesOptions::default()).process(User::root());
    process.expect("the root directory is sound")
}

/// All files of a volume as a text, without times but those that a call has set.
fn text(volume: &Volume) -> Result<String, String> {
    let mut text = String::new();
    show(volume, Ino::ROOT, "/", &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn show(volume: &Volume, ino: Ino, path: &str, text: &mut String) -> everbyte_fs::Result<()> {
    let of = volume.attributes(ino)?;
    let set = of.modified < 100;
    *text += &format!("{path} {:?} {:o} {} {} {}", of.kind, of.permissions, of.links, of.uid, of.gid);
    // A directory may grow before the call that needs its page.
    let size = if of.kind == FileKind::Directory { 0 } else { of.size };
    *text += &format!(" {size} {} {set}", of.device);
    for name in volume.xattrs(ino)? {
        *text += &format!(" {}={:?}", name.escape_ascii(), volume.xattr(ino, &name)?);
    }
    *text += "\n";
    if of.kind == FileKind::Directory {
        let mut entries = volume.entries(ino, 0, usize::MAX)?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        for entry in entries {
            show(volume, entry.ino, &format!("{path}{}/", entry.name.escape_ascii()), text)?;
        }
    }
    Ok(())
}

/// The text before the calls, and behind each.
fn texts() -> Vec<String> {
    let media = Media::anonymous(32 << 20, &Options::default()).expect("memory");
    let store = everbyte_store::Store::format(media, &Default::default()).expect("room");
    let options = everbyte_fs::VolumeOptions { span: Some(8 << 20), ..Default::default() };
    let volume = Volume::create(&store, "calls", &options).expect("room");
    let process = process(&volume);
    let mut texts = vec![text(&volume).expect("a sound volume")];
    for (name, call) in CALLS {
        call(&process).unwrap_or_else(|error| panic!("{name}: {error}"));
        texts.push(text(&volume).expect("a sound volume"));
    }
    texts
}

fn program(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, _) = image(&[]);
    let texts = texts();
    let run = |media: Media, twin: &Twin<'_, String>| {
        let volume = open(&media).expect("a whole image");
        let process = process(&volume);
        let done = texts.iter().position(|text| *text == twin.model()).expect("the text behind a call");
        for ((name, call), text) in CALLS.iter().zip(&texts[1..]).skip(done) {
            let text = text.clone();
            twin.step(
                *name,
                move |model: &mut String| model.clone_from(&text),
                || {
                    call(&process).unwrap_or_else(|error| panic!("{name}: {error}"));
                    if !media.fences_settle() {
                        process.files().sync().expect("sim barriers do not fail");
                    }
                },
            );
        }
    };
    explorer.explore_twin(&image, &texts[0], Order::InOrder, run, |media, seen| observe(&media, seen))
}

fn observe(media: &Media, seen: &Seen) -> Result<String, String> {
    let volume = open(media)?;
    seen.recovered();
    match volume.check().first() {
        Some(finding) => Err(finding.to_string()),
        None => text(&volume),
    }
}
