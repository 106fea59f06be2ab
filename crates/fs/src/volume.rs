//! [`Volume`]: making and opening a volume, and its figures.

use crate::core::Core;
use crate::extents::Pages;
use crate::freeze::Freeze;
use crate::lanes::Lanes;
use crate::node::Indexed;
use crate::nodes::Nodes;
use crate::recover::{self, VolumeRecovery};
use crate::space::Space;
use crate::{Error, OpenVolume, PageSize, Result, VolumeOptions, format, quota, saved, size};
use everbyte_media::WriteWindows;
use everbyte_store::{Engine, Object, ObjectOptions, Store};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An open volume. Cheap to clone; all clones are one volume.
#[derive(Clone)]
pub struct Volume {
    pub(crate) core: Arc<Core>,
}

impl Volume {
    /// Creates an empty volume in a new object. Settled on return; a crash leaves the volume whole
    /// or absent.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::NoSpace`], and those of creating an object.
    pub fn create(store: &Store, name: &str, options: &VolumeOptions) -> Result<Volume> {
        let object = ObjectOptions { engine: Engine::Fs, fingerprint: format::fingerprint(), span: options.span };
        let object = store.create_object(name, object, |object| format::format(object, options))?;
        Volume::open_with(object, &OpenVolume { clock: options.clock, ..OpenVolume::default() })
    }

    /// Opens the volume in an object. Undoes the changes that a crash interrupted. The free pages
    /// and inodes are those that [`Volume::close`] saved; if it did not, the volume is scanned, in
    /// a time that grows with the number of inodes and extents.
    ///
    /// # Errors
    /// [`everbyte_store::Error::WrongEngine`], [`everbyte_store::Error::Claimed`] while this
    /// process has it open, [`Error::NewerFormat`], [`Error::OldFormat`], [`Error::Damaged`];
    /// [`everbyte_media::Error::Unsupported`] for write windows by keys that cannot be had.
    pub fn open(object: Object) -> Result<Volume> {
        Volume::open_with(object, &OpenVolume::default())
    }

    /// [`Volume::open`] with options.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open_with(object: Object, options: &OpenVolume) -> Result<Volume> {
        object.require_engine(Engine::Fs)?;
        object.require_fingerprint(format::fingerprint())?;
        let claim = object.claim()?;
        let guard = object.media().guard_writes(object.span(), options.windows)?;
        let (head, head_repaired) = format::read(&object, true)?;
        let start = object.prime().get();
        let allowed = start..object.backed().get();
        let saved = saved::load(&object, &head);
        saved::invalidate(&object);
        let (lanes, undone) = Lanes::recover(object.media(), start, head.lanes, &allowed)?;
        // A volume that was closed has nothing to undo.
        let scan = match saved.filter(|_| undone == 0).and_then(|saved| saved.scan(&object, &head)) {
            Some(scan) => scan,
            None => recover::scan(&object, &head)?,
        };
        let page_size = options.page_size.or(PageSize::of_word(head.page_size)).unwrap_or_default();
        let recovery = VolumeRecovery { undone, head_repaired, ..scan.recovery };
        let media = object.media().clone();
        let core = Core {
            space: Space::new(object, scan.free, scan.shared, options.clock),
            head,
            lanes,
            table: scan.table,
            nodes: Nodes::new(&recovery.damaged, options.files),
            maps: Default::default(),
            tree: Default::default(),
            freeze: Freeze::new(&media, options.relaxed),
            snapshots: Default::default(),
            clock: options.clock,
            guard,
            page_size,
            sums: Default::default(),
            verifies: options.verify,
            recovery,
            _claim: claim,
        };
        // The limits of a damaged list are none: `check` tells.
        let limits = quota::list::read(Pages::of(core.object())).unwrap_or_default();
        core.limit.store(size::read(Pages::of(core.object())).unwrap_or(0), Ordering::Relaxed);
        core.quotas.load(scan.used);
        core.quotas.set_limits(&limits);
        if !core.recovery.damaged.is_empty() {
            core.require_scan();
        }
        Ok(Volume { core: Arc::new(core) })
    }

    /// Closes the volume, and saves its free pages and inodes, so that the next opening reads no
    /// inode. Settled on return. They are not saved where the volume has no room for them, where a
    /// file is damaged, or where a call has panicked; the next opening scans then, as it does when
    /// a volume is dropped and not closed.
    ///
    /// # Errors
    /// [`Error::InUse`] while other clones of the volume, or [`crate::Held`] files, exist: the last
    /// of them may be closed. A failed write or sync poisons the store.
    pub fn close(self) -> Result<()> {
        let Volume { core } = self;
        let name = core.name().to_owned();
        let core = Arc::into_inner(core).ok_or(Error::InUse { volume: name })?;
        let media = core.media();
        media.require_opener()?;
        if !media.opened().read_only {
            core.freeze.adopt(); // the saved state counts their pages
            if !core.requires_scan() {
                saved::save(&core)?;
            }
            media.barrier()?;
        }
        Ok(()) // the next opening may begin
    }

    /// The work that opening the volume did.
    pub fn recovery(&self) -> &VolumeRecovery {
        &self.core.recovery
    }

    /// The object that it lies in.
    pub fn object(&self) -> &Object {
        self.core.object()
    }

    /// Its label.
    pub fn label(&self) -> String {
        let label = &self.core.head.label;
        let end = label.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        String::from_utf8_lossy(&label[..end]).into_owned()
    }

    /// Its identity.
    pub fn uuid(&self) -> [u8; 16] {
        self.core.head.uuid
    }

    /// Waits until all changes of this volume that returned before are durable. On a medium whose
    /// fences settle they are so already, but for those that [`OpenVolume::relaxed`] leaves.
    ///
    /// # Errors
    /// A failed write or sync poisons the store.
    pub fn settle(&self) -> Result<()> {
        self.core.freeze.adopt();
        Ok(self.core.media().barrier()?)
    }

    /// The protection of its pages against stray stores of this process: never
    /// [`WriteWindows::Default`].
    pub fn windows(&self) -> WriteWindows {
        self.core.guard.kind()
    }

    /// The present time, as changes store it: nanoseconds since 1970.
    pub fn now(&self) -> i64 {
        self.core.now()
    }

    /// The files, extents and names that are indexed in memory now. Costs a look at each file.
    pub fn indexed(&self) -> Indexed {
        self.core.nodes.indexed()
    }

    /// Bytes that were stored to the journal since the volume was opened.
    pub fn logged(&self) -> u64 {
        self.core.lanes.written()
    }

    /// Space and inodes. Free counts are those of the pages that the volume has now: it grows up to
    /// its size or its span.
    pub fn usage(&self) -> Usage {
        let core = &*self.core;
        Usage {
            pages: core.end_page(),
            free_pages: core.takeable_count(),
            pages_max: core.end_page_max(),
            inodes: core.table.numbers().count() as u64,
            free_inodes: core.table.free_count(),
        }
    }
}

/// Space and inodes of a volume, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Pages that the volume has now.
    pub pages: u64,
    /// Pages of them that are free, without those beyond the size of the volume.
    pub free_pages: u64,
    /// Pages that it may have at most: by its size, or else by its span.
    pub pages_max: u64,
    /// Inodes that the volume has now.
    pub inodes: u64,
    /// Inodes of them that are free.
    pub free_inodes: u64,
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Volume({})", self.core.name())
    }
}
