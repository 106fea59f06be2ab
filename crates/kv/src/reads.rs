//! The reads that tables, their snapshots and batches have in common. Each has a `tree` that
//! answers them, and `reading`, which says for which table, or that it is gone. It is asked again
//! behind a read: the table may have been dropped meanwhile, and its number given to another.

/// Methods that read one key; `$seen` ends the sentences that say which version answers.
macro_rules! reads {
    ($seen:literal) => {
        #[doc = concat!("The value of `key`", $seen)]
        ///
        /// # Errors
        /// Damage.
        #[inline]
        pub fn get(&self, key: &[u8]) -> $crate::Result<Option<Vec<u8>>> {
            let value = self.tree().get(self.reading()?, key)?;
            self.reading().map(|_| value)
        }

        /// Replaces the contents of `value` by the value of `key`; returns whether it is there. For
        /// loops of reads, which then share the memory of one value
        #[doc = concat!("(docs/design/borrowed-reads.md)", $seen)]
        /// If the key is not there, and after an error, `value` is empty.
        ///
        /// # Errors
        /// Damage.
        #[inline]
        pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> $crate::Result<bool> {
            let found = self.reading().and_then(|table| self.tree().get_into(table, key, value));
            found.and_then(|found| self.reading().map(|_| found)).inspect_err(|_| value.clear())
        }

        #[doc = concat!("The length of the value of `key`, without the value", $seen)]
        ///
        /// # Errors
        /// Damage.
        pub fn len_of(&self, key: &[u8]) -> $crate::Result<Option<u64>> {
            let len = self.tree().len_of(self.reading()?, key)?;
            self.reading().map(|_| len)
        }

        #[doc = concat!("Whether `key` is there, without its value", $seen)]
        ///
        /// # Errors
        /// Damage.
        pub fn contains(&self, key: &[u8]) -> $crate::Result<bool> {
            Ok(self.len_of(key)?.is_some())
        }

        /// The part of the value of `key` that `choose` names when it is told the length; what lies
        /// behind the end is left
        #[doc = concat!("out. Its cost is that of the part, and of 4 bytes for each 64 KiB of the value", $seen)]
        ///
        /// # Errors
        /// Damage.
        pub fn part_of(
            &self,
            key: &[u8],
            mut choose: impl FnMut(u64) -> std::ops::Range<u64>,
        ) -> $crate::Result<Option<Vec<u8>>> {
            let part = self.tree().part_of(self.reading()?, key, &mut choose)?;
            self.reading().map(|_| part)
        }
    };
}

pub(crate) use reads;
