//! Bad input, damaged bytes, full stores and failing disks.

mod bad_days;
mod on_files;
mod settling;
