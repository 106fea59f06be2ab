//! Natural numbers of any size, for texts of numbers whose exponents are large.

use std::cmp::Ordering;

/// 32 bits each, the lowest first, without zeros at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Natural(Vec<u32>);

impl Natural {
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>) -> Natural {
        let mut natural = Natural(Vec::new());
        digits.for_each(|digit| natural.multiply(10, u32::from(digit)));
        natural
    }

    /// `bits` times 2 to the power of `shift`.
    pub(super) fn shifted(bits: u64, shift: usize) -> Natural {
        let mut natural = Natural(vec![bits as u32, (bits >> 32) as u32]);
        natural.trim();
        natural.shift(shift);
        natural
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Bits up to the highest one that is set.
    pub(super) fn bits(&self) -> usize {
        self.0.last().map_or(0, |last| 32 * self.0.len() - last.leading_zeros() as usize)
    }

    fn multiply(&mut self, factor: u32, add: u32) {
        let mut carry = u64::from(add);
        for part in &mut self.0 {
            carry += u64::from(*part) * u64::from(factor);
            *part = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Times 10 to the power of `exponent`.
    pub(super) fn multiply_by_ten(&mut self, exponent: usize) {
        (0..exponent / 9).for_each(|_| self.multiply(1_000_000_000, 0));
        (0..exponent % 9).for_each(|_| self.multiply(10, 0));
    }

    /// Times 2 to the power of `count`.
    pub(super) fn shift(&mut self, count: usize) {
        if self.is_zero() {
            return;
        }
        self.multiply(1 << (count % 32), 0);
        self.0.splice(0..0, std::iter::repeat_n(0, count / 32));
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for part in self.0.iter_mut().rev() {
            (*part, carry) = (*part >> 1 | carry << 31, *part & 1);
        }
        self.trim();
    }

    fn at_least(&self, other: &Natural) -> bool {
        let parts = |natural: &Natural| natural.0.len();
        let order = parts(self).cmp(&parts(other)).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()));
        order != Ordering::Less
    }

    /// Takes `other`, which is not greater, away.
    fn subtract(&mut self, other: &Natural) {
        let mut borrow = false;
        for (place, part) in self.0.iter_mut().enumerate() {
            let (less, first) = part.overflowing_sub(other.0.get(place).copied().unwrap_or(0));
            let (less, second) = less.overflowing_sub(u32::from(borrow));
            (*part, borrow) = (less, first || second);
        }
        self.trim();
    }

    /// The quotient, whose bits are at most `bits`; `self` becomes the remainder.
    pub(super) fn divide(&mut self, mut by: Natural, bits: usize) -> u128 {
        let mut quotient = 0;
        by.shift(bits - 1);
        for _ in 0..bits {
            quotient <<= 1;
            if self.at_least(&by) {
                self.subtract(&by);
                quotient |= 1;
            }
            by.halve();
        }
        quotient
    }

    /// The 128 highest bits and the exponent of their lowest, which also stands for all below it.
    pub(super) fn highest_bits(&self) -> (u128, i64) {
        let shift = self.bits().saturating_sub(128);
        let (whole, part) = (shift / 32, shift % 32);
        let mut bits = 0;
        for (place, value) in self.0[whole..].iter().enumerate() {
            let at = 32 * place as i64 - part as i64;
            bits |= if at < 0 { u128::from(*value) >> -at } else { u128::from(*value) << at };
        }
        let below = self.0[..whole].iter().any(|value| *value != 0);
        let below = below || part > 0 && self.0[whole] << (32 - part) != 0;
        (bits | u128::from(below), shift as i64)
    }

    /// In decimal.
    pub(super) fn text(mut self) -> String {
        let mut groups = Vec::new();
        while !self.is_zero() {
            let mut rest = 0;
            for part in self.0.iter_mut().rev() {
                let value = rest << 32 | u64::from(*part);
                (*part, rest) = ((value / 1_000_000_000) as u32, value % 1_000_000_000);
            }
            self.trim();
            groups.push(rest);
        }
        let first = groups.pop().unwrap_or(0).to_string();
        groups.iter().rev().fold(first, |text, group| text + &format!("{group:09}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naturals_are_calculated_with() {
        let digits = "123456789012345678901234567890123456789012345678901234567890";
        let natural = Natural::from_digits(digits.bytes().map(|digit| digit - b'0'));
        assert_eq!(natural.clone().text(), digits);
        let mut product = natural.clone();
        product.multiply_by_ten(20);
        assert_eq!(product.clone().text(), format!("{digits}{}", "0".repeat(20)));
        product.shift(3);
        assert_eq!(product.bits(), natural.bits() + 3 + 66);
        let rest = Natural::from_digits([7].into_iter());
        product.0[0] += 7;
        let quotient = product.divide(natural, 80);
        assert_eq!((quotient, product), (800_000_000_000_000_000_000, rest));
        assert_eq!(Natural::shifted(1, 100).highest_bits(), (1 << 100, 0));
        assert_eq!(Natural::shifted(3, 200).highest_bits(), (3 << 126, 74));
        let mut odd = Natural::shifted(1, 200);
        odd.0[0] = 1;
        assert_eq!(odd.highest_bits(), (1 << 127 | 1, 73));
        let empty = Natural::from_digits([].into_iter());
        assert!(empty.is_zero() && empty.text() == "0");
    }
}
