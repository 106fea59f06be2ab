//! [`number_type!`](crate::number_type): numbers that are no other number.

/// Defines numbers of one meaning, of the size and bytes of a `u64`. A plain number becomes one
/// where a call asks for it; a number of another type does not:
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// everbyte_media::number_type! {
///     /// The number of a train.
///     pub struct Train;
/// }
///
/// fn announce(train: impl Into<Train>) -> String {
///     format!("train {}", train.into())
/// }
///
/// assert_eq!(announce(7), announce(Train::new(7)));
/// ```
///
/// ```compile_fail,E0277
/// # use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// # everbyte_media::number_type! {
/// #     /// The number of a train.
/// #     pub struct Train;
/// # }
/// # fn announce(train: impl Into<Train>) {}
/// announce(everbyte_media::Offset::new(7));
/// ```
///
/// The crate that uses it depends on `zerocopy` and imports the four traits.
#[macro_export]
macro_rules! number_type {
    ($(#[$attribute:meta])* $visible:vis struct $Name:ident;) => {
        $(#[$attribute])*
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
        )]
        #[repr(transparent)]
        $visible struct $Name(u64);

        impl $Name {
            /// The one with this number.
            #[inline(always)]
            pub const fn new(number: u64) -> $Name {
                $Name(number)
            }

            /// Its number.
            #[inline(always)]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl From<u64> for $Name {
            #[inline(always)]
            fn from(number: u64) -> $Name {
                $Name(number)
            }
        }

        impl PartialEq<u64> for $Name {
            #[inline(always)]
            fn eq(&self, number: &u64) -> bool {
                self.0 == *number
            }
        }

        impl PartialOrd<u64> for $Name {
            #[inline(always)]
            fn partial_cmp(&self, number: &u64) -> Option<std::cmp::Ordering> {
                self.0.partial_cmp(number)
            }
        }

        impl std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::LowerHex for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}
