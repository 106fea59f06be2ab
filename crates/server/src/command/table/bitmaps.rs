//! Rows of the table: strings as bits.

use super::*;
use crate::command::{bitfields, bitmaps};

const READ: Flags = READONLY.union(Flags::BITMAP);
const CHANGE: Flags = WRITE.union(DENYOOM).union(Flags::BITMAP);
const FIELDS: KeyUse = uses(1, 0, 1, &["RW", "access", "update", "variable_flags"]);

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("setbit", 4, CHANGE, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "bitmap", "2.2.0", LOG_VALUE, "Gives a bit a value and returns the one before", bitmaps::setbit),
    keyed!("getbit", 3, READ.union(FAST), ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "bitmap", "2.2.0", LOG_PART, "The value of a bit", bitmaps::getbit),
    keyed!("bitcount", -2, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "bitmap", "2.6.0", LOG_PART, "The number of bits that are 1; a range in bytes, or with BIT in bits", bitmaps::bitcount),
    keyed!("bitpos", -3, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "bitmap", "2.8.7", LOG_PART, "The place of the first 1 or 0; a range in bytes, or with BIT in bits", bitmaps::bitpos),
    keyed!("bitop", -4, CHANGE, (2, -1, 1), &[uses(2, 0, 1, &["OW", "update"]), uses(3, -1, 1, RO_ACCESS)], &[], "bitmap", "2.6.0", LOG_EACH_VALUE, "Stores AND, OR, XOR or NOT of values, bit by bit", bitmaps::bitop),
    keyed!("bitfield", -2, CHANGE, ONE, &[noted(FIELDS, "This command allows both access and modification of the key")], &[], "bitmap", "3.2.0", LOG_VALUE, "Reads and changes numbers of 1 to 64 bits; parts GET, SET, INCRBY, OVERFLOW", bitfields::bitfield),
    keyed!("bitfield_ro", -2, READ.union(FAST), ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "bitmap", "6.0.0", LOG_PART, "Reads numbers of 1 to 64 bits", bitfields::bitfield_ro),
];
