use engine::{HandOff, Steer};
use frame::ArenaConfig;

use super::*;

/// Group and owner are a frame's first two octets.
struct First;

impl Sorts for First {
    fn group(&self, _: PortId, frame: &[u8]) -> Option<u16> {
        frame.first().map(|group| u16::from(*group))
    }

    fn owner(&self, _: PortId, frame: &[u8]) -> Option<Owner> {
        frame.get(1).map(|owner| u16::from(*owner))
    }

    fn is_ours_alone(&self, _: PortId, frame: &[u8], _: bool) -> bool {
        frame.get(2) != Some(&9)
    }

    fn adopt(&self, _: PortId, frame: &mut [u8]) {
        frame[2] += 100;
    }
}

/// A worker's end, a passage, and packet memory.
struct Side(Outside, Passage, Arc<Arena>, Pool);

fn side() -> Side {
    let waker = Waker::new().unwrap();
    let own = Waker::new().unwrap();
    let mut members = HandOff::among(2, Steer::new(), vec![own, waker.clone()]);
    let outside = Outside::new(members.pop().unwrap());
    let worker = Outside::new(members.pop().unwrap());
    let arena = Arena::new(ArenaConfig { slots: 1024, ..ArenaConfig::default() }).unwrap();
    let passage = Passage::start((outside, waker), arena.clone(), Arc::new(First), || ()).unwrap();
    let pool = Pool::new(&arena, 64);
    Side(worker, passage, arena, pool)
}

impl Side {
    fn send(&mut self, bytes: &[u8]) {
        let frame = self.3.make(bytes).unwrap();
        assert!(self.0.send(1, 4, frame).is_ok());
        self.0.nudge();
    }

    fn received(&mut self, count: usize) -> Vec<Vec<u8>> {
        let (mut all, until) = (Vec::new(), Instant::now() + Duration::from_secs(5));
        while all.len() < count && Instant::now() < until {
            let (arena, pool) = (&self.2, &mut self.3);
            self.0.receive(64, |_, frame| {
                all.push(arena.bytes(&frame).to_vec());
                pool.give(frame);
            });
        }
        all
    }
}

#[test]
fn what_waits_goes_first_and_in_order() {
    let (mut here, mut there) = (side(), side());
    here.1.hold(7, 100);
    (0..50u8).for_each(|n| here.send(&[7, 0, 3, n]));
    std::thread::sleep(Duration::from_millis(20));
    let (ours, theirs) = UnixStream::pair().unwrap();
    there.1.receive(7, theirs);
    here.1.open(7, ours);
    // To all: the other process has its own.
    here.send(&[7, 0, 9, 0]);
    (50..60u8).for_each(|n| here.send(&[7, 0, 3, n]));
    let came = there.received(60);
    assert_eq!(came, (0..60u8).map(|n| vec![7, 0, 103, n]).collect::<Vec<_>>());
    assert_eq!((here.1.passed().on, here.1.passed().lost, there.1.passed().taken), (60, 1, 60));
    assert_eq!(there.1.sources(7), 1);
    here.1.close(7);
    let until = Instant::now() + Duration::from_secs(5);
    while there.1.sources(7) > 0 && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!((there.1.sources(7), here.1.gone()), (0, vec![]));
}

#[test]
fn a_group_that_stays_has_its_frames_back() {
    let mut here = side();
    here.1.hold(7, 10);
    (0..12u8).for_each(|n| here.send(&[7, 0, 3, n]));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(here.1.passed().lost, 2, "no more may wait");
    here.1.bring_back(7);
    assert_eq!(here.received(10).last(), Some(&vec![7, 0, 3, 9]));
}

#[test]
fn a_process_that_takes_nothing_for_a_while_holds_nobody_up() {
    let (mut here, mut there) = (side(), side());
    let (ours, theirs) = UnixStream::pair().unwrap();
    here.1.hold(7, 1000);
    here.1.open(7, ours);
    let bytes = [&[7, 0, 3][..], &[0; 1400]].concat();
    // Fewer than there are buffers on the other side.
    for _ in 0..60 {
        (0..10).for_each(|_| here.send(&bytes));
        std::thread::sleep(Duration::from_millis(1));
    }
    let begin = Instant::now();
    here.1.close(7);
    assert!(begin.elapsed() < Duration::from_secs(1), "it waits for nobody");
    there.1.receive(7, theirs);
    assert_eq!(there.received(600).len(), 600, "what waited comes, though closed");
}

#[test]
fn an_end_of_the_other_process_is_told() {
    let mut here = side();
    let (ours, theirs) = UnixStream::pair().unwrap();
    here.1.hold(7, 10);
    here.1.open(7, ours);
    here.send(&[7, 1, 3, 0]);
    let until = Instant::now() + Duration::from_secs(5);
    while here.1.passed().on == 0 && Instant::now() < until {
        std::thread::yield_now();
    }
    drop(theirs);
    let mut gone = here.1.gone();
    while gone.is_empty() && Instant::now() < until {
        gone = here.1.gone();
    }
    assert_eq!(gone, [7]);
    here.send(&[7, 1, 3, 0]);
    here.1.stop();
    assert_eq!(here.1.passed().lost, 1);
    let Side(worker, passage, arena, pool) = here;
    drop((worker, passage, pool));
    assert_eq!(arena.in_depot(), 1024, "all buffers are back");
}
