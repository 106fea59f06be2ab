//! The checksum of payloads: CRC-64 with the polynomial of Jones, bits reflected.

/// The polynomial, reflected.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut word, mut bit) = (byte as u64, 0);
        while bit < 8 {
            word = if word & 1 == 1 { word >> 1 ^ POLYNOMIAL } else { word >> 1 };
            bit += 1;
        }
        table[byte] = word;
        byte += 1;
    }
    table
};

/// Of these bytes.
pub(super) fn of(bytes: &[u8]) -> u64 {
    after(0, bytes)
}

/// Of the bytes that have the checksum `sum`, and these behind them.
pub(crate) fn after(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_known_sum_comes_out() {
        assert_eq!(super::of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
