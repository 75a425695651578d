//! Medians and their kin.

use std::time::{Duration, Instant};

pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

/// The mean of the middle half: as robust as a median, and finer where values are whole microseconds.
pub fn midmean(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let middle = &sorted[quarter..sorted.len() - quarter];
    middle.iter().sum::<f64>() / middle.len() as f64
}

pub fn us(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// The ratio of two series that were measured in turn: the median over the rounds, in each of which the machine was the
/// same for both.
pub fn ratio(measured: &[f64], floor: &[f64]) -> f64 {
    assert_eq!(measured.len(), floor.len());
    let ratios: Vec<f64> = measured.iter().zip(floor).map(|(measured, floor)| measured / floor).collect();
    median(&ratios)
}

/// The time of one, in microseconds: the median of so many, each timed alone, because on a busy machine a few of them wait
/// for milliseconds.
pub fn each(times: usize, mut work: impl FnMut()) -> f64 {
    let timed = |_| {
        let start = Instant::now();
        work();
        us(start.elapsed())
    };
    median(&(0..times).map(timed).collect::<Vec<_>>())
}
