//! The backends of a media, and the values that only they use: flush instructions on a shared
//! mapping (`direct`), a private mapping with a log (`file`), and a recorder for tests.

pub(crate) mod direct;
pub(crate) mod file;
pub(crate) mod latch;
pub(crate) mod profile;
pub(crate) mod recorder;
pub(crate) mod trace_line;
