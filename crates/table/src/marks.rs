//! Numbers that are marked, each once, to be taken out in any order.

/// Marked numbers. Marking one takes constant time; memory grows only with numbers beyond those expected.
#[derive(Debug, Default)]
pub struct Marks {
    bits: Vec<u64>,
    list: Vec<u32>,
}

impl Marks {
    /// Of numbers below `numbers`, of which none is marked.
    pub fn new(numbers: usize) -> Self {
        Self { bits: vec![0; numbers.div_ceil(64) + 64], list: Vec::with_capacity(numbers.max(1024)) }
    }

    /// Marks a number.
    pub fn mark(&mut self, number: u32) {
        let (at, bit) = (number as usize / 64, 1 << (number % 64));
        if at >= self.bits.len() {
            self.bits.resize(at + 64, 0);
        }
        if self.bits[at] & bit == 0 {
            self.bits[at] |= bit;
            self.list.push(number);
        }
    }

    /// Unmarks one, if one is marked.
    pub fn take(&mut self) -> Option<u32> {
        let number = self.list.pop()?;
        self.bits[number as usize / 64] &= !(1 << (number % 64));
        Some(number)
    }

    /// How many are marked.
    pub fn left(&self) -> usize {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_once_however_often_it_was_marked() {
        let mut marks = Marks::new(10);
        [3, 5, 3, 70_000, 5].into_iter().for_each(|number| marks.mark(number));
        assert_eq!(marks.left(), 3);
        let mut taken: Vec<_> = std::iter::from_fn(|| marks.take()).collect();
        taken.sort_unstable();
        assert_eq!(taken, [3, 5, 70_000]);
        marks.mark(5);
        assert_eq!((marks.take(), marks.left()), (Some(5), 0));
    }
}
