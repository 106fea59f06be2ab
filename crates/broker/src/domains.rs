//! [`Domains`]: the domains of one broker: a directory with a store of names and a file for each
//! domain.
//!
//! Design: docs/design/domains.md.
//!
//! Creation: the domain's file, as a bound store of its own; then its entry, in one step. Removal:
//! its entry in one step, then its file. A crash in between leaves a file without an entry, which
//! the next opening removes.
//!
//! Invariants
//!   DOM-1  Every entry has its file; the addresses of no two domains overlap.
//!   DOM-2  After opening every file has an entry.
//!   DOM-3  The directory belongs to the broker's user and no other user may write to it. It is
//!          opened once, and all files in it are reached through that descriptor: a directory that
//!          is moved or replaced later changes nothing.
//!
//! Threads: one at a time; the server has a lock around it.

use crate::error::{No, renamed};
use crate::layout::{ENTRIES, Entry, MAGIC};
use crate::{Error, Result};
use everbyte_media::{Checked, Damage, ErrorInfo, ErrorKind, Length, Media, length_limit, seeded};
use everbyte_store::{Access, Caller, CreateOptions, HEADER_LEN, Object, ObjectOptions, Store, Want};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The least `max` of a domain: the store's own bytes, and some for data.
const MAX_LEAST: u64 = 1 << 20;
/// The most.
const MAX_MOST: u64 = 1 << 40;
/// Bytes that the log of a domain on a disk may grow to.
const LOG: u64 = 1 << 20;
const EXTENSION: &str = "domain";

/// The domains of a directory.
pub struct Domains {
    /// The directory, by its descriptor (DOM-3).
    dir: PathBuf,
    /// The directory as the user named it, for messages.
    named: PathBuf,
    _directory: File,
    names: Store,
    known: BTreeMap<String, Entry>,
    /// Bytes that the domains of one user may grow to together.
    quota: u64,
    /// The number of the last file that a creation without a known outcome has left.
    left: u64,
}

/// The properties of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its owner, its group and their rights.
    pub access: Access,
    /// The address that its store is bound to.
    pub base: u64,
    /// Bytes that it may grow to.
    pub max: u64,
}

impl Domains {
    /// Opens the domains of `dir`, which is created if it does not exist; no other user may enter
    /// it. Files without an entry are removed.
    ///
    /// # Errors
    /// Another broker has them open; damage; I/O.
    pub fn open(dir: &Path, quota: u64) -> Result<Domains> {
        let directory = open_directory(dir)?;
        let (named, dir) = (dir, &PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())));
        Domains::open_in(named, dir, directory, quota).map_err(|error| error.in_directory(dir, named))
    }

    /// As [`Domains::open`]; errors name the directory by its descriptor.
    fn open_in(named: &Path, dir: &Path, directory: File, quota: u64) -> Result<Domains> {
        let io = |action| move |source| Error::Io { action, path: named.into(), source };
        let path = dir.join("names.store");
        let options = CreateOptions { max: 1 << 40, ..CreateOptions::default() };
        let names = if path.exists() { Store::open(&path, &options.media)? } else { Store::create(&path, &options)? };
        let mut domains = Domains {
            dir: dir.into(),
            named: named.into(),
            _directory: directory,
            names,
            known: BTreeMap::new(),
            quota,
            left: 0,
        };
        for object in domains.names.objects()? {
            let entry = read(&domains.names.object(&object.name)?)?;
            domains.known.insert(object.name, entry);
        }
        // entries that were read are settled before a client gets an answer that depends on them
        domains.names.media().barrier()?;
        domains.sweep().map_err(io("remove leftovers of a crash in"))?;
        Ok(domains)
    }

    /// A refusal for the client, with the directory as the user named it.
    pub(crate) fn told(&self, no: No) -> No {
        No { said: renamed(&no.said, &self.dir, &self.named), ..no }
    }

    /// Establishes DOM-2.
    fn sweep(&self) -> std::io::Result<()> {
        for file in std::fs::read_dir(&self.dir)? {
            let path = file?.path();
            let number = path.file_stem().and_then(|stem| u64::from_str_radix(stem.to_str()?, 16).ok());
            let ours = path.extension().is_some_and(|extension| extension == EXTENSION);
            let known = number.is_some_and(|number| self.known.values().any(|entry| entry.number == number));
            if ours && !known {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn path(&self, entry: &Entry) -> PathBuf {
        self.dir.join(format!("{:016x}.{EXTENSION}", entry.number))
    }

    /// Makes a domain that may grow to `max` bytes. Settled on return; a crash leaves it whole or
    /// absent.
    pub(crate) fn create(&mut self, caller: &Caller, name: &str, mode: u16, max: u64) -> Result<(), No> {
        self.names.require_free(name)?;
        check_mode(mode)?;
        if !(MAX_LEAST..=MAX_MOST).contains(&max) {
            return Err(No::new(
                Errno::INVAL,
                format!("a domain may grow to 1 MiB at least and 1 TiB at most, not to {max} bytes"),
            ));
        }
        self.cut_overgrown();
        let taken: u64 =
            self.known.values().filter(|entry| entry.uid == caller.user).map(|entry| self.charge(entry)).sum();
        if caller.user != 0 && taken.saturating_add(max) > self.quota {
            let quota = self.quota;
            let said = format!(
                "user {} has domains of {taken} bytes; {max} more are beyond the quota of {quota}",
                caller.user
            );
            return Err(No::new(Errno::DQUOT, said));
        }
        let number = self.known.values().map(|entry| entry.number).max().unwrap_or(0).max(self.left) + 1;
        let draft = Entry {
            magic: MAGIC,
            checksum: 0,
            mode: mode.into(),
            uid: caller.user,
            gid: caller.groups.first().copied().unwrap_or(0),
            turn: 1,
            number,
            base: 0,
            max: Length::new(max),
            reserved: 0,
        };
        let base = self.make_file(&self.path(&draft), max)?;
        self.give_file(&draft);
        let entry = Entry { base, ..draft }.sealed();
        let options = ObjectOptions { span: Some(64 << 10), ..ObjectOptions::default() };
        let made = self.names.create_small_object(name, options, |object| -> everbyte_store::Result<()> {
            write(object, &entry);
            Ok(())
        });
        if let Err(error) = made {
            // After a barrier that failed the entry may be there. The file goes behind it (DOM-1),
            // or stays for the next opening, under a number that is not given again.
            match self.names.remove_object(name) {
                Err(refused) if refused.kind() != ErrorKind::NotFound => self.left = number,
                _ => drop(std::fs::remove_file(self.path(&entry))),
            }
            return Err(error.into());
        }
        self.known.insert(name.into(), entry);
        Ok(())
    }

    /// Makes the file of a domain, at an address of its own (DOM-1).
    fn make_file(&self, path: &Path, max: u64) -> Result<u64, No> {
        let media = everbyte_media::Options { log_bytes: LOG.min(max / 4), ..Default::default() };
        for _ in 0..64 {
            let store = Store::create(path, &CreateOptions { max, bound: true, media: media.clone() })?;
            let base = store.info().binding.expect("made bound");
            store.close()?;
            drop(store);
            let set = std::fs::set_permissions(path, PermissionsExt::from_mode(0o600));
            let overlaps = |entry: &Entry| base < entry.base + entry.max.get() && entry.base < base + max;
            if set.is_ok() && !self.known.values().any(overlaps) {
                return Ok(base);
            }
            let _ = std::fs::remove_file(path); // the next attempt takes another address
        }
        Err(No::new(Errno::NOSPC, "no addresses are left for a domain of this size; ask for a smaller one"))
    }

    /// Gives the file of a domain to its owner, so that quotas of the file system charge the owner.
    /// Only root may give files away; the files of another broker stay its own.
    fn give_file(&self, entry: &Entry) {
        let path = self.path(entry);
        let _ = std::os::unix::fs::chown(&path, Some(entry.uid), Some(entry.gid));
        // The owner before could give others rights to the file through a descriptor of it, and a
        // reader can open its own descriptor again. From here on only the new owner can do so.
        let _ = std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600));
    }

    /// Bytes that a domain counts for in its owner's quota: its maximum, or the bytes of its file
    /// if a client has grown it beyond.
    fn charge(&self, entry: &Entry) -> u64 {
        let taken = std::fs::metadata(self.path(entry)).map_or(0, |found| found.blocks() * 512);
        entry.max.max(Length::new(taken)).get()
    }

    /// Cuts files that are longer than the store of a domain can become: a client with the right to
    /// write can grow its file. No store has data there. A file is not cut to a length beyond the
    /// process's limit (`ulimit -f`): if its client shortens it meanwhile, that would lengthen it,
    /// and the system would end the broker by a signal.
    pub(crate) fn cut_overgrown(&self) {
        let limit = length_limit();
        for entry in self.known.values() {
            let (path, most) = (self.path(entry), file_most(entry.max.get()));
            // Blocks may also lie behind the end of the file.
            let is_over = |found: std::fs::Metadata| found.len() > most || found.blocks() * 512 > most;
            if most <= limit
                && std::fs::metadata(&path).is_ok_and(is_over)
                && let Ok(file) = File::options().write(true).open(&path)
            {
                // Made longer first, so that the cut includes those blocks. After a failure the
                // next check repeats it.
                let _ = file.set_len(limit.min(1 << 43));
                let _ = file.set_len(most);
            }
        }
    }

    /// Opens the file of a domain as far as `caller` wants and may: for a writer two descriptions,
    /// of the bytes and for locks.
    pub(crate) fn attach(&self, caller: &Caller, name: &str, want: Want) -> Result<Vec<File>, No> {
        let entry = self.find(name)?;
        if !access(entry).allows(caller, want) {
            let what = if want == Want::Write { "write" } else { "read" };
            let said = format!("domain `{name}` ({}): user {} may not {what} it", access(entry), caller.user);
            return Err(No::new(Errno::ACCESS, said));
        }
        let path = self.path(entry);
        let open = || File::options().read(true).write(want == Want::Write).open(&path);
        let files = (0..if want == Want::Write { 2 } else { 1 }).map(|_| open());
        files.collect::<std::io::Result<_>>().map_err(|error| {
            No::new(Errno::IO, format!("domain `{name}`: its file {} cannot be opened: {error}", path.display()))
        })
    }

    /// Removes a domain. Processes that have it attached keep their mappings; no client finds it
    /// any more.
    pub(crate) fn remove(&mut self, caller: &Caller, name: &str) -> Result<(), No> {
        let entry = *self.find(name)?;
        require(caller, name, &entry, &access(&entry))?;
        self.names.remove_object(name)?;
        self.known.remove(name);
        let _ = std::fs::remove_file(self.path(&entry)); // else the next opening does it
        Ok(())
    }

    /// Changes the mode. Descriptors that were passed before keep their rights.
    pub(crate) fn chmod(&mut self, caller: &Caller, name: &str, mode: u16) -> Result<(), No> {
        check_mode(mode)?;
        self.change(caller, name, |access| Access { mode, ..access })
    }

    /// Gives a domain to another user and group.
    pub(crate) fn chown(&mut self, caller: &Caller, name: &str, owner: u32, group: u32) -> Result<(), No> {
        self.change(caller, name, |access| Access { owner, group, ..access })
    }

    fn change(&mut self, caller: &Caller, name: &str, new: impl FnOnce(Access) -> Access) -> Result<(), No> {
        let entry = *self.find(name)?;
        let new = new(access(&entry));
        require(caller, name, &entry, &new)?;
        let (mode, uid, gid) = (new.mode.into(), new.owner, new.group);
        let entry = Entry { mode, uid, gid, turn: entry.turn + 1, ..entry }.sealed();
        let object = self.names.object(name)?;
        write(&object, &entry);
        object.media().barrier()?;
        self.give_file(&entry);
        self.known.insert(name.into(), entry);
        Ok(())
    }

    /// The properties of a domain.
    pub(crate) fn about(&self, name: &str) -> Result<About, No> {
        self.find(name).map(|entry| about(name, entry))
    }

    /// The domains whose names begin with `prefix` and come after `after`, in order.
    pub(crate) fn list<'d>(&'d self, prefix: &'d str, after: &str) -> impl Iterator<Item = About> + 'd {
        let from = if after >= prefix { std::ops::Bound::Excluded(after) } else { std::ops::Bound::Included(prefix) };
        let names = self.known.range::<str, _>((from, std::ops::Bound::Unbounded));
        names.take_while(move |(name, _)| name.starts_with(prefix)).map(|(name, entry)| about(name, entry))
    }

    fn find(&self, name: &str) -> Result<&Entry, No> {
        self.known.get(name).ok_or_else(|| No::new(Errno::NOENT, format!("there is no domain `{name}`")))
    }
}

/// The longest that the file of a domain with this maximum becomes: its places in the file are at
/// most twice what it backs.
fn file_most(max: u64) -> u64 {
    2 * max + (16 << 20)
}

/// Creates the directory of the domains, or opens the existing one (DOM-3).
fn open_directory(dir: &Path) -> Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, fchmod, fstat, mkdirat, openat};
    let io = |action| move |errno: Errno| Error::Io { action, path: dir.into(), source: errno.into() };
    match mkdirat(CWD, dir, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(io("make the directory")(errno)),
    }
    let unsafe_because = |detail: String| Error::Unsafe { path: dir.into(), detail };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(CWD, dir, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP | Errno::NOTDIR => {
            unsafe_because("this is a symbolic link or no directory; name the directory of the domains itself".into())
        }
        errno => io("open the directory")(errno),
    })?;
    let found = fstat(&directory).map_err(io("look at the directory"))?;
    let own = rustix::process::geteuid().as_raw();
    if found.st_uid != own {
        let owner = found.st_uid;
        return Err(unsafe_because(format!(
            "this directory belongs to user {owner}, who could replace the domains in it; the broker of user {own} needs \
             one of its own: give another path, or remove it"
        )));
    }
    if found.st_mode & 0o022 != 0 {
        return Err(unsafe_because(
            "others may write to this directory, so what is in it may be theirs; name a new directory, or remove theirs \
             from it and close it (chmod 700)"
                .into(),
        ));
    }
    fchmod(&directory, Mode::RWXU).map_err(io("close the directory to others"))?;
    Ok(File::from(directory))
}

/// Refuses a caller without the right to give a domain these rights; with its present rights:
/// without the right to remove it.
fn require(caller: &Caller, name: &str, entry: &Entry, new: &Access) -> Result<(), No> {
    match access(entry).refuses(caller, new) {
        None => Ok(()),
        Some(why) => Err(No::new(Errno::PERM, format!("domain `{name}` of user {}: {why}", entry.uid))),
    }
}

fn check_mode(mode: u16) -> Result<(), No> {
    if mode & !Access::MODES == 0 {
        return Ok(());
    }
    Err(No::new(
        Errno::INVAL,
        format!("{mode:o} is no mode: a digit each for owner, group and others, of 4 (read) and 2 (write)"),
    ))
}

fn access(entry: &Entry) -> Access {
    Access { owner: entry.uid, group: entry.gid, mode: entry.mode as u16 }
}

fn about(name: &str, entry: &Entry) -> About {
    About { name: name.into(), access: access(entry), base: entry.base, max: entry.max.get() }
}

fn at(object: &Object, turn: u64) -> u64 {
    let turn = if seeded("broker-entry-in-place") { 0 } else { turn };
    (object.prime() + HEADER_LEN + turn % 2 * (ENTRIES / 2)).get()
}

/// Writes the older of the two records, and flushes it; no fence.
fn write(object: &Object, entry: &Entry) {
    let (media, at): (&Media, u64) = (object.media(), at(object, entry.turn));
    let _section = media.section();
    media.put(at, entry);
    media.flush(at, size_of::<Entry>() as u64);
}

/// The newest whole record; flushed, no fence.
fn read(object: &Object) -> Result<Entry> {
    object.media().reflush(at(object, 0), ENTRIES);
    let both = [0, 1].map(|turn| object.media().get::<Entry>(at(object, turn)));
    let newest = both.into_iter().filter(Entry::is_whole).max_by_key(|entry| entry.turn);
    newest.ok_or_else(|| {
        Error::Store(everbyte_store::Error::from(
            Damage::at(
                at(object, 0),
                format!("the entry of domain `{}` is not whole, in neither of its two records", object.name()),
            )
            .of_file(object.media().path()),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_sim::{Explorer, Failure, Image, Report};
    use everbyte_store::FormatOptions;

    fn entry(turn: u64) -> Entry {
        let mode = (turn % 8) as u32;
        Entry {
            magic: MAGIC,
            checksum: 0,
            mode,
            uid: turn as u32,
            gid: 0,
            turn,
            number: 1,
            base: 0,
            max: Length::new(0),
            reserved: 0,
        }
        .sealed()
    }

    /// Changes rights again and again; each change is whole or absent, and no acknowledged one is
    /// lost.
    fn explore() -> Result<Report, Box<Failure>> {
        let image = Image::zeroed(512 << 10).with_max(1 << 20).then(|media| {
            let store = Store::format(media, &FormatOptions::default()).unwrap();
            let options = ObjectOptions { span: Some(64 << 10), ..ObjectOptions::default() };
            let made = store.create_object("d", options, |object| -> everbyte_store::Result<()> {
                write(object, &entry(1));
                Ok(())
            });
            made.unwrap();
            store.close().unwrap();
        });
        Explorer::new("broker-entry").total(2000).explore(
            &image,
            |media, oracle| {
                let object = Store::attach(media).unwrap().object("d").unwrap();
                for turn in 2..5 {
                    oracle.step(format!("turn {turn}"), || {
                        write(&object, &entry(turn));
                        object.media().barrier().unwrap();
                    });
                }
            },
            |media, seen| {
                let object = Store::attach(media).unwrap().object("d").unwrap();
                let found = read(&object).map_err(|error| error.to_string())?;
                object.media().barrier().unwrap();
                seen.recovered();
                let turn = found.turn as usize;
                let promised = turn > seen.acked_count() && turn <= seen.begun_count() + 1;
                if promised && found == entry(found.turn) { Ok(()) } else { Err(format!("{found:?}, {seen:?}")) }
            },
        )
    }

    /// A barrier fails when the entry is made already: every entry has its file then, too.
    #[test]
    fn a_creation_whose_barrier_failed_leaves_no_entry_without_its_file() {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let dir = folder.path().join("domains");
        let mut domains = Domains::open(&dir, 1 << 40).unwrap();
        let caller = Caller::current();
        domains.create(&caller, "first", 0o600, MAX_LEAST).unwrap();
        let other = domains.names.create_object("other", ObjectOptions::default(), |_| Ok::<_, Error>(())).unwrap();
        let lost = (other.prime() + (32 << 10)).get();
        domains.names.media().raise_memory_error(lost);
        domains.names.media().flush(lost, 8_u64); // the thread's next barrier fails
        domains.create(&caller, "d", 0o600, MAX_LEAST).unwrap_err();
        let files = || std::fs::read_dir(&dir).unwrap().filter(|file| is_of_domain(file.as_ref().unwrap())).count();
        assert_eq!((files(), domains.names.objects().unwrap().len()), (1, 2), "`first` and `other`");
        domains.create(&caller, "d", 0o600, MAX_LEAST).unwrap();
        assert_eq!((files(), domains.names.objects().unwrap().len()), (2, 3));
    }

    fn is_of_domain(file: &std::fs::DirEntry) -> bool {
        file.path().extension().is_some_and(|extension| extension == EXTENSION)
    }

    #[test]
    fn the_page_shows_what_is_written() {
        let media = Image::zeroed(512 << 10).with_max(1 << 20).media();
        let store = Store::format(media, &FormatOptions { identity: Some([7; 16]), ..Default::default() }).unwrap();
        let options = ObjectOptions { span: Some(64 << 10), ..ObjectOptions::default() };
        let made =
            Entry { mode: 0o640, uid: 1000, gid: 100, base: 0x2000_4000_0000, max: Length::new(64 << 20), ..entry(1) };
        let object = store.create_object("d", options, |object| -> everbyte_store::Result<()> {
            write(object, &made.sealed());
            Ok(())
        });
        let object = object.unwrap();
        write(&object, &Entry { mode: 0o600, turn: 2, ..made }.sealed());
        let at = at(&object, 0);
        let text = everbyte_sim::dump(object.media(), &[("the records", at, ENTRIES)]);
        everbyte_sim::assert_page("../../docs/formats/broker.md", &text);
    }

    #[test]
    fn a_change_of_rights_is_whole_or_absent() {
        println!("{}", explore().unwrap_or_else(|failure| panic!("{failure}")));
    }

    #[cfg(feature = "museum")]
    #[test]
    fn a_change_in_place_is_found() {
        let found = everbyte_media::museum::with("broker-entry-in-place", explore);
        assert!(found.unwrap_err().to_string().contains("in neither of its two records"));
    }

    /// A change of rights writes the record that is not the newest, and is settled before the
    /// client learns of it.
    #[test]
    fn a_change_leaves_the_record_before_it_and_is_settled() {
        let dir = tempfile::tempdir().unwrap();
        let mut domains = Domains::open(&dir.path().join("domains"), 1 << 40).unwrap();
        let caller = Caller::current();
        domains.create(&caller, "a", 0o600, 1 << 20).unwrap();
        for (turn, mode) in [(2, 0o640), (3, 0o660), (4, 0o600)] {
            let object = domains.names.object("a").unwrap();
            let media = object.media().clone();
            let both = || [0, 1].map(|turn| media.get::<Entry>(super::at(&object, turn)));
            let (before, barriers) = (both(), media.counts().barriers);
            domains.chmod(&caller, "a", mode).unwrap();
            let place = turn as usize % 2;
            let after = both();
            assert_eq!((after[place].turn, after[place].mode), (turn, u32::from(mode)));
            assert_eq!(after[1 - place], before[1 - place]);
            assert!(media.counts().barriers > barriers);
        }
    }

    /// A page of the list that ends with the name which is the prefix itself is followed by the
    /// next name.
    #[test]
    fn a_list_goes_on_behind_the_name_that_it_has_come_to() {
        let dir = tempfile::tempdir().unwrap();
        let mut domains = Domains::open(&dir.path().join("domains"), 1 << 40).unwrap();
        for name in ["a", "ab", "b"] {
            domains.create(&Caller::current(), name, 0o600, 1 << 20).unwrap();
        }
        let list = |prefix: &'static str, after: &str| -> Vec<String> {
            domains.list(prefix, after).map(|about| about.name).collect()
        };
        assert_eq!(list("a", ""), ["a", "ab"]);
        assert_eq!(list("a", "a"), ["ab"]);
        assert_eq!(list("", "ab"), ["b"]);
        assert!(list("a", "ab").is_empty());
    }

    /// The number of a domain names its file: it is free only above those of all others.
    #[test]
    fn a_domain_gets_no_file_that_another_has() {
        let dir = tempfile::tempdir().unwrap();
        let mut domains = Domains::open(&dir.path().join("domains"), 1 << 40).unwrap();
        let caller = Caller::current();
        for name in ["a", "b"] {
            domains.create(&caller, name, 0o600, 1 << 20).unwrap();
        }
        domains.remove(&caller, "a").unwrap();
        domains.create(&caller, "c", 0o600, 1 << 20).unwrap();
        assert_ne!(domains.known["b"].number, domains.known["c"].number);
        assert!(domains.known.values().all(|entry| domains.path(entry).exists()));
    }

    #[test]
    fn a_directory_that_its_group_or_others_may_write_to_is_refused() {
        for mode in [0o720, 0o702] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).unwrap();
            assert!(matches!(Domains::open(dir.path(), 1 << 40), Err(Error::Unsafe { .. })), "{mode:o}");
        }
    }
}
