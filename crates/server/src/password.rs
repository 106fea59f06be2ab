//! The password that clients have to give (`requirepass`).
//!
//! Its bytes leave this file in one place, [`Password::shown`], for CONFIG GET by a client that has
//! given it. `Debug` masks it, so that no log and no error shows it.

use std::fmt;
use std::hint::black_box;

/// Bytes of a password at most, as in Redis.
const SIZE_MAX: usize = 512;

/// See the head of this file.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Box<[u8]>);

impl Password {
    /// A password of 1 to 512 bytes; `None` for another size.
    pub fn new(bytes: impl AsRef<[u8]>) -> Option<Password> {
        let bytes = bytes.as_ref();
        (1..=SIZE_MAX).contains(&bytes.len()).then(|| Password(bytes.into()))
    }

    /// Whether `given` is this password. The time depends on the size of `given` alone.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let mut difference = self.0.len() ^ given.len();
        for (byte, known) in given.iter().zip(self.0.iter().cycle()) {
            difference |= usize::from(black_box(byte ^ known));
        }
        black_box(difference) == 0
    }

    /// Its bytes.
    pub(crate) fn shown(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_password_is_right() {
        let password = Password::new("sesame").unwrap();
        assert!(password.is(b"sesame"));
        for wrong in ["", "s", "sesam", "sesamf", "Sesame", "sesamesesame", "sesame\0", "esame"] {
            assert!(!password.is(wrong.as_bytes()), "{wrong:?}");
        }
        assert!(!Password::new("aa").unwrap().is(b"aaaa"));
        assert_eq!(format!("{password:?}"), "Password(..)");
    }

    #[test]
    fn a_password_has_1_to_512_bytes() {
        assert!(Password::new("").is_none() && Password::new([b'p'; 513]).is_none());
        assert!(Password::new([b'p'; 512]).unwrap().is(&[b'p'; 512]));
    }
}
