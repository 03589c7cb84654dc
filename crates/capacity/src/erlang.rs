//! Erlang-B: how many places a population needs that is turned away, not queued, when all are taken.
//!
//! `B(0, a) = 1`, `B(n, a) = a·B(n−1, a) / (n + a·B(n−1, a))`, with offered traffic `a` in erlangs (arrivals a second
//! by the mean time a place is held). A. K. Erlang, 1917; the recurrence is exact and never overflows.

/// The probability that all `places` are taken, when `erlangs` are offered.
pub fn blocking(places: u64, erlangs: f64) -> f64 {
    (1..=places).fold(1.0, |before, n| step(before, n, erlangs))
}

/// The fewest places at which no more than a share `accepted` is turned away.
///
/// Takes time in proportion to the answer, which is little more than `erlangs` itself.
pub fn places(erlangs: f64, accepted: f64) -> u64 {
    let (mut n, mut turned_away) = (0, 1.0);
    while turned_away > accepted {
        n += 1;
        turned_away = step(turned_away, n, erlangs);
    }
    n
}

fn step(before: f64, n: u64, erlangs: f64) -> f64 {
    erlangs * before / (n as f64 + erlangs * before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hundred_erlangs_at_one_percent_need_117_places() {
        assert_eq!(places(100.0, 0.01), 117);
        assert!(blocking(117, 100.0) <= 0.01 && blocking(116, 100.0) > 0.01);
    }

    /// `B = (aⁿ/n!) / Σ aᵏ/k!`, the definition, by logarithms.
    fn definition(places: u64, erlangs: f64) -> f64 {
        let mut terms = vec![0.0];
        for k in 1..=places {
            terms.push(terms[terms.len() - 1] + erlangs.ln() - (k as f64).ln());
        }
        let last = terms[terms.len() - 1];
        1.0 / terms.iter().map(|term| (term - last).exp()).sum::<f64>()
    }

    proptest! {
        #[test]
        fn the_recurrence_is_the_definition(places in 0u64..400, erlangs in 0.01f64..400.0) {
            let (by_recurrence, by_definition) = (blocking(places, erlangs), definition(places, erlangs));
            prop_assert!((by_recurrence - by_definition).abs() <= 1e-9 * by_definition.max(1e-12));
        }

        #[test]
        fn the_answer_is_the_first_that_suffices(erlangs in 0.1f64..2000.0, accepted in 0.0001f64..0.5) {
            let n = places(erlangs, accepted);
            prop_assert!(blocking(n, erlangs) <= accepted);
            prop_assert!(n == 0 || blocking(n - 1, erlangs) > accepted);
        }

        #[test]
        fn more_traffic_never_needs_fewer_places(erlangs in 0.1f64..1000.0, more in 0.0f64..1000.0) {
            prop_assert!(places(erlangs + more, 0.01) >= places(erlangs, 0.01));
        }
    }
}
