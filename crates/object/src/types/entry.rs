//! [`MapEntry`]: a key and its value, as they lie in the blocks of maps.

/// The stored pair of a key and its value.
#[repr(C)]
pub(crate) struct MapEntry<K, V> {
    pub key: K,
    pub value: V,
}

impl<K, V> MapEntry<K, V> {
    /// Bytes of an entry.
    pub(crate) const SIZE: usize = {
        assert!(align_of::<Self>() <= 16, "types of a pool are aligned to 16 bytes at most");
        size_of::<Self>()
    };

    /// Offset of the value of the entry at `entry`.
    #[inline(always)]
    pub(crate) fn value(entry: *mut Self) -> *mut V {
        entry.wrapping_byte_add(std::mem::offset_of!(Self, value)).cast()
    }
}
