//! Hand-off between workers: a ring from each to each.

use std::fmt;

use crate::ring::{Consumer, Gauge, Producer, ring};

/// One [`Node`] for each of `n` workers, joined by `n × n` rings of `capacity` (rounded up to a power of two) values;
/// a worker's ring to itself is there too, so that steering needs no exception.
pub fn mesh<T: Send>(n: usize, capacity: usize) -> Vec<Node<T>> {
    let mut nodes: Vec<_> = (0..n).map(|me| Node { me, to: Vec::new(), from: Vec::new(), first: 0 }).collect();
    for from in 0..n {
        for to in 0..n {
            let (tx, rx) = ring(capacity);
            nodes[from].to.push(tx);
            nodes[to].from.push(rx);
        }
    }
    nodes
}

/// One worker's ends of the mesh.
pub struct Node<T> {
    me: usize,
    to: Vec<Producer<T>>,
    from: Vec<Consumer<T>>,
    /// Whom to hear first next time, so that nobody starves.
    first: usize,
}

impl<T: Send> Node<T> {
    /// This worker's number.
    pub fn me(&self) -> usize {
        self.me
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.to.len()
    }

    /// Hands a value to worker `to`, or gives it back (and counts it) when that ring is full or there is no such
    /// worker.
    #[inline]
    pub fn send(&mut self, to: usize, value: T) -> Result<(), T> {
        match self.to.get_mut(to) {
            Some(ring) => ring.push(value),
            None => Err(value),
        }
    }

    /// Hands values to worker `to` as long as there is room; returns how many. The rest stays in the iterator.
    #[inline]
    pub fn send_batch<I: ExactSizeIterator<Item = T>>(&mut self, to: usize, values: &mut I) -> usize {
        self.to.get_mut(to).map_or(0, |ring| ring.push_batch(values))
    }

    /// Takes up to `max` values from all workers and hands each to `f` with the number of its sender; returns how
    /// many. In order per sender; each call begins with another one.
    #[inline]
    pub fn recv(&mut self, max: usize, mut f: impl FnMut(usize, T)) -> usize {
        let n = self.from.len();
        let mut taken = 0;
        for step in 0..n {
            if taken == max {
                break;
            }
            let from = (self.first + step) % n;
            taken += self.from[from].pop_batch(max - taken, |value| f(from, value));
        }
        self.first = if self.first + 1 < n { self.first + 1 } else { 0 };
        taken
    }

    /// Whether nothing is waiting for this worker: the last look before going to sleep.
    pub fn is_empty(&mut self) -> bool {
        self.from.iter_mut().all(|ring| ring.is_empty())
    }

    /// Counts of the edge to worker `to`, readable from any thread.
    pub fn gauge(&self, to: usize) -> Option<&Gauge> {
        self.to.get(to).map(Producer::gauge)
    }
}

impl<T> fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("me", &self.me).field("to", &self.to).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_worker_reaches_every_worker() {
        let n = 3;
        let mut nodes = mesh::<Box<(usize, usize)>>(n, 4);
        for (from, node) in nodes.iter_mut().enumerate() {
            for to in 0..n {
                assert_eq!(node.send(to, Box::new((from, to))), Ok(()));
            }
            assert!(node.send(n, Box::new((0, 0))).is_err());
        }
        for (me, node) in nodes.iter_mut().enumerate() {
            let mut seen = vec![];
            assert_eq!((node.me(), node.workers(), node.is_empty()), (me, n, false));
            node.recv(99, |from, value| {
                assert_eq!(*value, (from, me));
                seen.push(from);
            });
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2]);
            assert!(node.is_empty());
        }
    }

    #[test]
    fn a_busy_sender_starves_nobody_and_full_edges_are_counted() {
        let mut nodes = mesh::<u32>(2, 4);
        let mut b = nodes.pop().unwrap();
        let mut a = nodes.pop().unwrap();
        let mut values = 0..6;
        assert_eq!(a.send_batch(1, &mut values), 4);
        assert_eq!(values, 4..6);
        b.send(1, 77).unwrap();
        let mut got = vec![];
        assert_eq!(b.recv(2, |from, v| got.push((from, v))), 2);
        assert_eq!(b.recv(2, |from, v| got.push((from, v))), 2);
        assert_eq!(got, [(0, 0), (0, 1), (1, 77), (0, 2)]);
        let edge = a.gauge(1).unwrap().clone();
        assert_eq!((edge.sent(), edge.full(), a.gauge(0).unwrap().sent()), (4, 2, 0));
    }
}
