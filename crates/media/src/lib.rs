//! # everbyte-media: mapped memory that survives crashes
//!
//! A [`Media`] maps a range of bytes and offers plain stores, [`Media::copy_nt`], [`Media::flush`],
//! [`Media::fence`] and [`Media::barrier`]. All of Everbyte rests on one rule:
//!
//! > After a crash each aligned 8-byte word holds its *settled* value or any value stored since,
//! > word by word, under one law: if a store survives, so does that value, or a later one, of
//! > everything that a thread had flushed before a fence of its own that happened before that
//! > store. A barrier settles everything that its thread flushed and everything that this law puts
//! > before it.
//!
//! So a fence **orders** and a barrier **completes**. No caller gets an acknowledgement before a
//! barrier.
//!
//! ```
//! use everbyte_media::{Media, Options};
//! let media = Media::anonymous(1 << 20, &Options::default())?; // memory of this process, as `shm`
//! media.store(0x8000, 42);          // a crash may keep it or lose it
//! media.flush(0x8000, 8);           // starts the write-back
//! media.fence();                    // nothing stored later survives without it
//! media.barrier()?;                 // settled: now the change may be acknowledged
//! assert_eq!(media.load(0x8000), 42);
//! # Ok::<(), everbyte_media::Error>(())
//! ```
//!
//! Crates above ask for [`Capabilities`], never for a backend's name, and issue no flush or fence
//! instruction.

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("Everbyte's formats are little-endian and its mappings need 64-bit addresses");

mod backends;
mod bytes;
mod changed_pages;
mod counters;
mod error;
mod gate;
mod kind;
pub mod lock_order;
mod media;
pub mod museum;
mod number;
mod open;
mod order;
mod pages;
mod section;
mod units;

pub use backends::file::{Disk, disk_alone, length_limit};
pub use backends::latch::{Latch, LatchGuard};
pub use backends::profile::Profile;
pub use backends::recorder::Recorder;
pub use backends::trace_line::TraceLine;
pub use bytes::checked::Checked;
pub use bytes::flusher::Flusher;
pub use bytes::isa::{FlushKind, LINE};
pub use bytes::line_words::Words;
pub use bytes::sealed;
pub use bytes::window::Window;
pub use changed_pages::{ChangedPages, ClosedGate};
pub use counters::Counts;
pub use error::{Error, Result};
pub use kind::{Damage, ErrorInfo, ErrorKind, Format};
pub use media::{Capabilities, Media};
pub use museum::seeded;
pub use museum::sites::sums_agree;
pub use open::copy::publish;
pub use open::examine::{file_offset, make_linear};
pub use open::head::{FORMAT, HEAD_END};
pub use open::open_options::{Geometry, OpenOptions};
pub use open::opened::Opened;
pub use open::options::{BackendChoice, BackendKind, Durability, Options, chosen};
pub use open::probe::{Probe, probe};
pub use order::{Ordered, PublishWord, Unsettled};
pub use pages::binding;
pub use pages::fault_handler::{Watch, Watcher};
pub use pages::named_ranges::NamedRange;
pub use pages::view::{View, ViewOptions, ViewPages, ViewPart};
pub use pages::write_guard::WriteGuard;
pub use pages::write_windows::WriteWindows;
pub use section::{Mark, Section};
pub use units::{Length, Offset};
