//! Damage: an error with its place, other files go on, and never a panic.

use everbyte_fs::{Error, FileKind, Ino, NewFile, Volume, VolumeOptions, layout, model};
use everbyte_media::Media;
use everbyte_sim::Image;
use everbyte_store::{CLUSTER, FormatOptions, Store};
use everbyte_workload::Random;

fn image() -> Image {
    Image::zeroed(CLUSTER).with_max(8 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap();
        let options = VolumeOptions { lanes: 2, span: Some(4 << 20), uuid: Some([1; 16]), ..Default::default() };
        let volume = Volume::create(&store, "volume", &options).unwrap();
        let file = NewFile::new(FileKind::Regular, 0o644);
        let directory = volume.make(Ino::ROOT, b"directory", &NewFile::new(FileKind::Directory, 0o755)).unwrap();
        let small = volume.make(directory, b"small", &file).unwrap();
        volume.append(small, &model::bytes(100, 1)).unwrap();
        let large = volume.make(directory, b"large", &file).unwrap();
        for number in 0..12 {
            volume.write(large, number * 8192, &model::bytes(5000, 2)).unwrap();
        }
        let target = model::bytes(300, 3);
        let link = NewFile { target: &target, ..NewFile::new(FileKind::Link, 0o777) };
        volume
            .make(directory, "a name of more than one line, which is longer than 48 bytes".as_bytes(), &link)
            .unwrap();
        drop(volume);
        store.close().unwrap();
    })
}

fn open(media: &Media) -> everbyte_fs::Result<Volume> {
    Volume::open(Store::attach(media.clone())?.object("volume")?)
}

fn start(image: &Image) -> u64 {
    Store::attach(image.media()).unwrap().object("volume").unwrap().prime().get()
}

#[test]
fn either_head_is_written_again_from_the_other() {
    let image = image();
    let start = start(&image);
    let heads = [start + layout::HEAD_AT, start + layout::HEAD_COPY_AT];
    for at in heads {
        let media = image.media();
        media.store(at + 32, media.load(at + 32) ^ 1);
        let volume = open(&media).unwrap();
        assert!(volume.recovery().head_repaired);
        assert_eq!(volume.check(), []);
        drop(volume);
        assert_eq!(media.read_vec(heads[0], 256), media.read_vec(heads[1], 256));
        assert!(!open(&media).unwrap().recovery().head_repaired);
    }
    let media = image.media();
    heads.iter().for_each(|at| media.store(at + 32, 0xff));
    assert!(matches!(open(&media), Err(Error::Damaged(_))), "both are damaged");
}

#[test]
fn a_newer_or_older_volume_is_refused() {
    use everbyte_media::Checked;
    let image = image();
    let (media, start) = (image.media(), start(&image));
    let head: layout::Head = media.get(start + layout::HEAD_AT);
    let newer = layout::Head { format: layout::FORMAT + 1, ..head }.sealed();
    for at in [layout::HEAD_AT, layout::HEAD_COPY_AT] {
        media.put(start + at, &newer);
    }
    let text = open(&media).unwrap_err().to_string();
    assert!(text.contains("newer"), "{text}");
    let older = layout::Head { format: 1, ..head }.sealed();
    for at in [layout::HEAD_AT, layout::HEAD_COPY_AT] {
        media.put(start + at, &older);
    }
    assert!(matches!(open(&media), Err(Error::OldFormat { .. })));
}

/// Reads all that a volume holds, as far as it can be, and changes some of it.
fn use_all(volume: &Volume) {
    drop(volume.check());
    let mut directories = vec![Ino::ROOT];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        seen += 1;
        for entry in volume.entries(directory, 0, 1000).unwrap_or_default() {
            drop(volume.attributes(entry.ino));
            let mut bytes = vec![0; 200_000];
            drop(volume.read(entry.ino, 0, &mut bytes));
            drop(volume.read_link(entry.ino));
            drop(volume.write(entry.ino, 4090, &[1; 20]));
            drop(volume.append(entry.ino, &[1; 5000]));
            drop(volume.resize(entry.ino, 100));
            drop(volume.parent(entry.ino));
            if entry.kind == FileKind::Directory && seen < 20 {
                directories.push(entry.ino);
            }
        }
        drop(volume.make(directory, b"new", &NewFile::new(FileKind::Regular, 0o600)));
        drop(volume.unlink(directory, b"large"));
    }
}

#[test]
fn flipped_bits_are_errors_and_never_a_panic() {
    let image = image();
    let start = start(&image);
    let clean = image.media();
    let used: Vec<u64> =
        (start + 512..clean.len()).step_by(8).filter(|&at| clean.holds(at, 8) && clean.load(at) != 0).collect();
    let end = start + (layout::LANES_PAGE + 2 + 2 + layout::GROUP_PAGES + 2) * layout::PAGE;
    let metadata: Vec<u64> = used.iter().copied().filter(|&at| at < end).collect();
    let mut random = Random::new(everbyte_workload::seed(11, "-p everbyte-fs flipped"));
    let (mut refused, mut damaged) = (0, 0);
    for _ in 0..everbyte_workload::long_or(600, 20_000) {
        let media = image.media();
        for _ in 0..random.pick(&[1, 1, 3]) {
            let from = if random.chance(85) { &metadata } else { &used };
            let at = from[random.index(from.len())];
            let word = if random.chance(70) { media.load(at) ^ 1 << random.below(64) } else { random.next() };
            media.store(at, word);
        }
        match open(&media) {
            Ok(volume) => {
                damaged += usize::from(!volume.recovery().damaged.is_empty() || !volume.check().is_empty());
                use_all(&volume);
            }
            Err(error) => {
                assert!(matches!(error, Error::Damaged(_) | Error::Log(_) | Error::NewerFormat { .. }), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10 && damaged > 200, "{refused} refused, {damaged} damaged");
}

/// Damage of one file leaves the others usable, and its pages are not given to them.
#[test]
fn a_damaged_file_leaves_the_others_usable() {
    let image = image();
    let (media, start) = (image.media(), start(&image));
    let volume = open(&media).unwrap();
    let directory = volume.lookup(Ino::ROOT, b"directory").unwrap().unwrap();
    let large = volume.lookup(directory, b"large").unwrap().unwrap();
    drop(volume);
    let group = start + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
    let slot = group + large.0 * layout::INODE + layout::inode::INLINE;
    media.store(slot, media.load(slot) ^ 1 << 40);
    let volume = open(&media).unwrap();
    assert_eq!(volume.recovery().damaged, [large]);
    assert!(matches!(volume.read(large, 0, &mut [0; 10]), Err(Error::Damaged(_))));
    assert!(!volume.check().is_empty());
    let fill = volume.make(Ino::ROOT, b"fill", &NewFile::new(FileKind::Regular, 0o600)).unwrap();
    while volume.append(fill, &[9; 4096]).is_ok() {}
    media.store(slot, media.load(slot) ^ 1 << 40);
    drop(volume);
    let volume = open(&media).unwrap();
    let mut bytes = [0; 5000];
    volume.read(large, 8192, &mut bytes).unwrap();
    assert!(bytes[..] == model::bytes(5000, 2), "a repaired file has its bytes");
    let small = volume.lookup(directory, b"small").unwrap().unwrap();
    let mut bytes = [0; 100];
    volume.read(small, 0, &mut bytes).unwrap();
    assert_eq!(bytes[..], model::bytes(100, 1));
}
