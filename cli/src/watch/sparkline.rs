//! A sparkline.

/// The newest value on the right; the highest has the full height.
pub(crate) fn sparkline(newest_first: impl Iterator<Item = u64>, columns: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut values: Vec<u64> = newest_first.take(columns).collect();
    values.resize(columns, 0);
    values.reverse();
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    // Nothing is the lowest bar, and anything is more than nothing.
    let bar = |value: u64| usize::try_from((value * 7).div_ceil(most)).unwrap_or(7).min(7);
    values.into_iter().map(|value| BARS[bar(value)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_to_the_highest() {
        assert_eq!(sparkline([8, 4, 1, 0].into_iter(), 6), "▁▁▁▂▅█");
        assert_eq!(sparkline([1].into_iter(), 2), "▁█");
        assert_eq!(sparkline([7, 6, 5, 4, 3, 2, 1].into_iter(), 3), "▆▇█");
    }
}
