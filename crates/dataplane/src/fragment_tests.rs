use proptest::prelude::*;

use super::*;

/// A packet with these options (a multiple of four bytes) and data, placed at `offset` of its datagram.
fn packet(options: &[u8], data: &[u8], offset: u16, more: bool) -> Vec<u8> {
    let header = 20 + options.len();
    let mut ip = vec![0x40 | (header / 4) as u8, 0xb8, 0, 0, 0x12, 0x34, 0, 0, 9, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ip.extend(options);
    ip.extend(data);
    let len = ip.len() as u16;
    fast::put16(&mut ip, 2, len).unwrap();
    let more = if more { MORE } else { 0 };
    fast::put16(&mut ip, 6, more | offset >> 3).unwrap();
    let check = checksum::of(&ip[..header]);
    fast::put16(&mut ip, 10, check).unwrap();
    ip
}

fn cut(ip: &[u8], mtu: usize) -> Result<Vec<Vec<u8>>, CannotFragment> {
    let mut pieces = Vec::new();
    let count = fragment(ip, mtu, |piece| {
        let mut out = vec![0xee; piece.len()];
        assert_eq!(piece.write(&mut out[..piece.len() - 1]), None);
        assert_eq!(piece.write(&mut out), Some(piece.len()));
        assert_eq!(fast::be16(&out, 6).unwrap() & 0x1fff, (piece.offset() / 8) as u16);
        assert_eq!(fast::be16(&out, 6).unwrap() & MORE != 0, piece.more());
        pieces.push(out);
    })?;
    assert_eq!(count, pieces.len());
    Ok(pieces)
}

#[test]
fn three_pieces() {
    let data: Vec<u8> = (0..100).collect();
    let pieces = cut(&packet(&[], &data, 0, false), 68).unwrap();
    let lens: Vec<_> = pieces.iter().map(Vec::len).collect();
    let words: Vec<_> = pieces.iter().map(|p| fast::be16(p, 6).unwrap()).collect();
    assert_eq!((lens, words), (vec![68, 68, 24], vec![0x2000, 0x2006, 0x000c]));
    assert_eq!(pieces[2][20..], data[96..]);
}

#[test]
fn what_fits_is_one_piece_and_unchanged() {
    let ip = packet(&[1, 1, 1, 0], &[7; 30], 0, false);
    assert_eq!(cut(&ip, 54), Ok(vec![ip.clone()]));
    assert_eq!(cut(&ip, 53).unwrap().len(), 2);
    let mut padded = ip.clone();
    padded.extend([0; 6]);
    assert_eq!(cut(&padded, 54), Ok(vec![ip]));
}

#[test]
fn options_are_copied_as_their_flag_says() {
    // Record route stays with the first; router alert goes with all.
    let options = [7, 7, 4, 0, 0, 0, 0, 1, 0x94, 4, 0, 0];
    let pieces = cut(&packet(&options, &[3; 64], 0, false), 64).unwrap();
    assert_eq!((pieces[0][0], &pieces[0][20..32]), (0x48, &options[..]));
    assert_eq!((pieces[1][0], &pieces[1][20..24]), (0x46, &[0x94, 4, 0, 0][..]));
    // One that is not a multiple of four is padded.
    let pieces = cut(&packet(&[0x88, 3, 9, 0], &[3; 64], 0, false), 64).unwrap();
    assert_eq!(pieces[1][20..24], [0x88, 3, 9, 0]);
}

#[test]
fn what_can_not_be_cut() {
    let data = [0; 64];
    assert_eq!(cut(&packet(&[], &data, 0, false), 27), Err(CannotFragment::MtuTooSmall));
    assert_eq!(cut(&packet(&[], &data, 0, false), 28).unwrap().len(), 8);
    for bad in [[2, 0, 0, 0], [2, 1, 0, 0], [2, 5, 0, 0], [1, 1, 1, 2]] {
        assert_eq!(cut(&packet(&bad, &data, 0, false), 60), Err(CannotFragment::BadOption), "{bad:?}");
    }
    assert_eq!(cut(&packet(&[], &data[..63], 0, true), 60), Err(CannotFragment::Malformed));
    assert_eq!(cut(&packet(&[], &data, 0xfff8, false), 60), Err(CannotFragment::Malformed));
    let good = packet(&[], &data, 0, false);
    assert_eq!(cut(&good[..83], 60), Err(CannotFragment::Malformed));
    assert_eq!(cut(&good[..19], 60), Err(CannotFragment::Malformed));
    let mut forbids = good;
    assert!(!dont_fragment(&forbids) && !dont_fragment(&[]));
    forbids[6] = 0x40;
    assert!(dont_fragment(&forbids));
}

proptest! {
    #[test]
    fn pieces_make_the_whole_again(
        data in prop::collection::vec(any::<u8>(), 0..3000),
        options in prop::collection::vec(prop::sample::select(vec![
            &[1u8, 1, 1, 1][..], &[0x94, 4, 0, 0], &[7, 3, 4, 1], &[0x83, 3, 4, 1], &[0x88, 4, 1, 2, 7, 4, 5, 6],
        ]), 0..5).prop_map(|o| o.concat()),
        mtu in 68usize..1600, again in 68usize..600, offset in 0u16..4000, more: bool,
    ) {
        let mut data = data;
        if more {
            data.truncate(data.len() & !7);
        }
        let (offset, header) = (offset * 8, 20 + options.len());
        let ip = packet(&options, &data, offset, more);
        let first = cut(&ip, mtu).unwrap();
        // Cut once more, as by a second router with a smaller MTU.
        let mut pieces = Vec::new();
        for piece in &first {
            prop_assert!(piece.len() <= mtu);
            pieces.extend(cut(piece, again).unwrap());
        }
        let mut at = usize::from(offset);
        for (i, piece) in pieces.iter().enumerate() {
            let header_len = usize::from(piece[0] & 15) * 4;
            let word = fast::be16(piece, 6).unwrap();
            prop_assert!(piece.len() <= again);
            prop_assert!(checksum::is_valid(checksum::sum(&piece[..header_len])));
            prop_assert_eq!(usize::from(fast::be16(piece, 2).unwrap()), piece.len());
            prop_assert_eq!(usize::from(word & 0x1fff) * 8, at);
            prop_assert_eq!(word & MORE != 0, more || i + 1 < pieces.len());
            prop_assert_eq!((&piece[4..6], &piece[12..20], piece[1], piece[8]), (&ip[4..6], &ip[12..20], ip[1], ip[8]));
            let body = &piece[header_len..];
            let from = at - usize::from(offset);
            prop_assert_eq!(body, &data[from..from + body.len()]);
            at += body.len();
        }
        prop_assert_eq!(at, usize::from(offset) + data.len());
        prop_assert_eq!(&pieces[0][20..header], &options[..]);
    }

    #[test]
    fn nothing_panics(mut ip in prop::collection::vec(any::<u8>(), 0..120), mtu in 0usize..150) {
        if let Some(b) = ip.first_mut() {
            *b = 0x40 | *b & 15;
        }
        if let (Some(b), true) = (ip.get_mut(2), mtu % 2 == 0) {
            *b = 0;
        }
        let _ = cut(&ip, mtu);
    }
}
