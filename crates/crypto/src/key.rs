//! What a security association gives.

/// The algorithms of BPI+.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES with 128-bit keys: what DOCSIS 3.0 and later use.
    Aes128,
    /// AES with 256-bit keys.
    Aes256,
    /// DES, of DOCSIS 1.1 modems. The eight bytes of a key carry 56 bits; parity is not looked at.
    Des56,
}

impl Cipher {
    /// Bytes of a key.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes256 => 32,
            Self::Des56 => 8,
        }
    }

    /// Bytes of a block and of an initialization vector.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::Aes128 | Self::Aes256 => 16,
            Self::Des56 => 8,
        }
    }
}

/// One key of a security association. A value that control makes; an [`crate::Engine`] expands it when it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    cipher: Cipher,
    key: [u8; 32],
    iv: [u8; 16],
}

impl Key {
    /// An AES-128 key.
    pub fn aes128(key: [u8; 16], iv: [u8; 16]) -> Self {
        Self::whole(Cipher::Aes128, &key, &iv)
    }

    /// An AES-256 key.
    pub fn aes256(key: [u8; 32], iv: [u8; 16]) -> Self {
        Self::whole(Cipher::Aes256, &key, &iv)
    }

    /// A DES key.
    pub fn des56(key: [u8; 8], iv: [u8; 8]) -> Self {
        Self::whole(Cipher::Des56, &key, &iv)
    }

    /// A key of bytes that came from elsewhere; none when a length is not the cipher's.
    pub fn new(cipher: Cipher, key: &[u8], iv: &[u8]) -> Option<Self> {
        (key.len() == cipher.key_bytes() && iv.len() == cipher.block_bytes()).then(|| Self::whole(cipher, key, iv))
    }

    fn whole(cipher: Cipher, key: &[u8], iv: &[u8]) -> Self {
        let mut this = Self { cipher, key: [0; 32], iv: [0; 16] };
        this.key[..key.len()].copy_from_slice(key);
        this.iv[..iv.len()].copy_from_slice(iv);
        this
    }

    /// Its algorithm.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The key's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.key[..self.cipher.key_bytes()]
    }

    /// The initialization vector.
    pub fn iv(&self) -> &[u8] {
        &self.iv[..self.cipher.block_bytes()]
    }
}

/// Never shows the key.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:?})", self.cipher)
    }
}

/// A key's place in the [`crate::Engine`] that it was given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyId(pub(crate) u32);

impl KeyId {
    /// No key: the frame stays in clear, and only its CRC is done.
    pub const CLEAR: Self = Self(u32::MAX);
}
