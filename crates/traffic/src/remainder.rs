//! Remainders by a divisor known at start, without dividing.

/// `n % divisor` for 32-bit numbers in two multiplications (Lemire, Kaser, Kurz 2019).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remainder {
    factor: u64,
    divisor: u32,
}

impl Remainder {
    /// Prepares a divisor of at least 1.
    pub fn by(divisor: u32) -> Self {
        let divisor = divisor.max(1);
        Self { factor: (u64::MAX / u64::from(divisor)).wrapping_add(1), divisor }
    }

    /// The remainder.
    #[inline(always)]
    pub fn of(self, n: u32) -> u32 {
        let low = self.factor.wrapping_mul(u64::from(n));
        ((u128::from(low) * u128::from(self.divisor)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_remainder(n: u32, divisor in 1u32..) {
            prop_assert_eq!(Remainder::by(divisor).of(n), n % divisor);
        }
    }

    #[test]
    fn at_the_edges() {
        for divisor in [1, 2, 3, 255, u32::MAX] {
            for n in [0, 1, divisor - 1, divisor, u32::MAX] {
                assert_eq!(Remainder::by(divisor).of(n), n % divisor, "{n} % {divisor}");
            }
        }
    }
}
