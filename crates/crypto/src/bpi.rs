//! BPI+ on plain bytes, one frame at a time.

use aes::{Aes128, Aes256};
use cipher::generic_array::GenericArray;
use cipher::{Block, BlockCipher, BlockDecrypt, BlockEncrypt, KeyInit};
use des::Des;

use crate::key::{Cipher, Key};

/// Bytes of an Ethernet frame that stay clear: destination and source address.
pub const CLEAR: usize = 12;

/// Bytes of the CRC behind a frame.
pub const CRC: usize = 4;

/// The CRC32 of an Ethernet frame (IEEE 802.3, 3.2.9) over its bytes from the destination address to the payload's end,
/// as the four bytes that follow them.
pub fn crc32(frame: &[u8]) -> [u8; CRC] {
    crc32fast::hash(frame).to_le_bytes()
}

/// A key, expanded both ways.
pub enum Schedule {
    /// See [`Cipher::Aes128`].
    Aes128(Box<Aes128>, [u8; 16]),
    /// See [`Cipher::Aes256`].
    Aes256(Box<Aes256>, [u8; 16]),
    /// See [`Cipher::Des56`].
    Des56(Des, [u8; 8]),
}

impl Schedule {
    /// Expands a key.
    pub fn new(key: &Key) -> Self {
        let mut iv16 = [0; 16];
        iv16[..key.iv().len()].copy_from_slice(key.iv());
        match key.cipher() {
            Cipher::Aes128 => Self::Aes128(Box::new(Aes128::new(GenericArray::from_slice(key.bytes()))), iv16),
            Cipher::Aes256 => Self::Aes256(Box::new(Aes256::new(GenericArray::from_slice(key.bytes()))), iv16),
            Cipher::Des56 => {
                let mut iv = [0; 8];
                iv.copy_from_slice(key.iv());
                Self::Des56(Des::new(GenericArray::from_slice(key.bytes())), iv)
            }
        }
    }

    /// Encrypts a frame's bytes behind its addresses, CRC included, in place.
    pub fn encrypt(&self, body: &mut [u8]) {
        match self {
            Self::Aes128(cipher, iv) => encrypt(&**cipher, iv, body),
            Self::Aes256(cipher, iv) => encrypt(&**cipher, iv, body),
            Self::Des56(cipher, iv) => encrypt(cipher, iv, body),
        }
    }

    /// Decrypts what [`Schedule::encrypt`] made.
    pub fn decrypt(&self, body: &mut [u8]) {
        match self {
            Self::Aes128(cipher, iv) => decrypt(&**cipher, iv, body),
            Self::Aes256(cipher, iv) => decrypt(&**cipher, iv, body),
            Self::Des56(cipher, iv) => decrypt(cipher, iv, body),
        }
    }
}

fn xor(into: &mut [u8], with: &[u8]) {
    for (byte, with) in into.iter_mut().zip(with) {
        *byte ^= with;
    }
}

/// The rest behind the last whole block, either way: XOR with the encryption of the ciphertext block before it, or of the
/// initialization vector when there is none.
fn residual<C: BlockCipher + BlockEncrypt>(cipher: &C, before: &[u8], rest: &mut [u8]) {
    if !rest.is_empty() {
        let mut pad: Block<C> = GenericArray::clone_from_slice(before);
        cipher.encrypt_block(&mut pad);
        xor(rest, &pad);
    }
}

fn encrypt<C: BlockCipher + BlockEncrypt>(cipher: &C, iv: &[u8], body: &mut [u8]) {
    let mut before: Block<C> = GenericArray::clone_from_slice(iv);
    let mut blocks = body.chunks_exact_mut(iv.len());
    for block in &mut blocks {
        xor(block, &before);
        cipher.encrypt_block(GenericArray::from_mut_slice(block));
        before.copy_from_slice(block);
    }
    residual(cipher, &before, blocks.into_remainder());
}

fn decrypt<C: BlockCipher + BlockEncrypt + BlockDecrypt>(cipher: &C, iv: &[u8], body: &mut [u8]) {
    let mut before: Block<C> = GenericArray::clone_from_slice(iv);
    let mut blocks = body.chunks_exact_mut(iv.len());
    for block in &mut blocks {
        let ciphertext: Block<C> = GenericArray::clone_from_slice(block);
        cipher.decrypt_block(GenericArray::from_mut_slice(block));
        xor(block, &before);
        before = ciphertext;
    }
    residual(cipher, &before, blocks.into_remainder());
}
