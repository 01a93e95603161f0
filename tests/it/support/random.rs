//! A small generator: the same seed gives the same run everywhere.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("fits")
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    pub(crate) fn byte(&mut self) -> u8 {
        u8::try_from(self.next() & 0xff).expect("a byte")
    }
}

/// A number from the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The seeds of a run: `ISOFOLD_FUZZ_ROUNDS` of them from `ISOFOLD_FUZZ_SEED` on.
pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
    let first = number("ISOFOLD_FUZZ_SEED", 1);
    first..first + number("ISOFOLD_FUZZ_ROUNDS", usual)
}
