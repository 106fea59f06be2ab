//! The password that clients have to give (`requirepass`).
//!
//! Its bytes leave this file in one place, [`Password::shown`]: for CONFIG GET by a client that has
//! given it, and for its hash, with which users are compared (`access/user.rs`). `Debug` masks
//! it, so that no log and no error shows it.

use std::fmt;

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
    fn a_password_has_1_to_512_bytes() {
        assert!(Password::new("").is_none() && Password::new([b'p'; 513]).is_none());
        let password = Password::new([b'p'; 512]).unwrap();
        assert_eq!((password.shown(), format!("{password:?}").as_str()), (&[b'p'; 512][..], "Password(..)"));
    }
}
