//! The rate at which most is delivered: beyond it, more load costs packets.

/// Rates are this factor apart at first; then the best is tried with each of these.
const COARSE: f64 = 1.5;
const FINE: [f64; 5] = [1.25, 1.1, 0.9, 1.05, 0.95];
/// Packets a second the search begins at.
const FIRST: f64 = 20e3;
/// Beyond this many offered for each delivered, more load changes nothing.
const OVERLOAD: f64 = 2.2;
/// A higher rate must deliver so much more to be taken, a lower one may deliver so much less: short trials are noisy, and
/// overload is not what is looked for.
const MORE: f64 = 1.02;
const LESS: f64 = 0.99;

/// What a trial of the search found, in packets a second.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Sent by the load: at most what was asked for.
    pub sent: f64,
    /// Delivered by the contender.
    pub delivered: f64,
}

/// Where most is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peak {
    /// Packets a second to offer.
    pub rate: f64,
    /// The load was asked for more and could not send it.
    pub limited: bool,
}

/// Searches; `measure` plays one short trial at a rate.
///
/// # Errors
/// Those of `measure`.
pub fn peak<E>(mut measure: impl FnMut(f64) -> Result<Found, E>) -> Result<Peak, E> {
    let (mut rate, mut best, mut most) = (FIRST, Peak { rate: FIRST, limited: false }, 0.0);
    let take = |asked: f64, found: Found, best: &mut Peak, most: &mut f64| {
        // What the load could not send was not offered.
        let peak = Peak { rate: asked.min(found.sent), limited: found.sent < 0.97 * asked };
        if found.delivered > *most * if peak.rate > best.rate { MORE } else { LESS } {
            (*best, *most) = (peak, found.delivered);
        }
    };
    loop {
        let found = measure(rate)?;
        take(rate, found, &mut best, &mut most);
        if rate > OVERLOAD * most || found.sent < 0.8 * rate {
            break;
        }
        rate *= COARSE;
    }
    for factor in FINE {
        let rate = best.rate * factor;
        take(rate, measure(rate)?, &mut best, &mut most);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that delivers `capacity` at most, and less the more it is overloaded, behind a load that sends `most`.
    fn device(capacity: f64, most: f64) -> impl FnMut(f64) -> Result<Found, ()> {
        move |rate| {
            let sent = rate.min(most);
            let over = (sent - capacity).max(0.0);
            Ok(Found { sent, delivered: (sent.min(capacity) - over * 0.3).max(0.0) })
        }
    }

    #[test]
    fn the_peak_of_a_device_is_found() {
        for capacity in [40e3, 130e3, 683e3, 1.2e6] {
            let Peak { rate, limited } = peak(device(capacity, 4e6)).expect("no error");
            assert!(!limited, "{capacity}");
            let delivered = device(capacity, 4e6)(rate).expect("no error").delivered;
            assert!(delivered > 0.93 * capacity, "{capacity}: {delivered} at {rate}");
        }
    }

    #[test]
    fn no_more_is_offered_than_can_be_sent() {
        let found = peak(device(5e6, 1e6)).expect("no error");
        assert!((0.9e6..=1e6).contains(&found.rate) && found.limited, "{found:?}");
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(peak(|_| Err("stopped")), Err("stopped"));
    }
}
