//! Short ways to declare the simple information elements.

/// Numbers in network byte order: `Name(u16) = 56`.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($repr:ty) = $number:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(pub $repr);

            impl $crate::Element for $name {
                const TYPE: u16 = $number;

                fn parse(content: &mut $crate::Reader<'_>) -> Result<$name, $crate::Fault> {
                    content.array().map(|octets| $name(<$repr>::from_be_bytes(octets)))
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    out.extend(self.0.to_be_bytes());
                }
            }
        )*
    };
}

/// Points in time, in seconds since 1900 (the first half of an NTP time stamp, RFC 5905): `Name = 96`.
macro_rules! times {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        numbers! { $($(#[$doc])* $name(u32) = $number;)* }
        $(
            impl $name {
                /// From seconds since 1970, UTC.
                pub const fn from_unix(seconds: u64) -> $name {
                    $name($crate::ie::time::from_unix(seconds))
                }

                /// As seconds since 1970, UTC; 1968 to 2104.
                pub const fn unix(self) -> u64 {
                    $crate::ie::time::to_unix(self.0)
                }
            }
        )*
    };
}

/// Text in all of the content: `Name = 24`.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(pub Box<str>);

            impl From<&str> for $name {
                fn from(text: &str) -> $name {
                    $name(text.into())
                }
            }

            impl $crate::Element for $name {
                const TYPE: u16 = $number;

                fn parse(content: &mut $crate::Reader<'_>) -> Result<$name, $crate::Fault> {
                    content.text(content.len()).map($name)
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    out.extend(self.0.as_bytes());
                }
            }
        )*
    };
}

/// Octets nobody here looks into: `Name = 152`.
macro_rules! octets {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(pub Box<[u8]>);

            impl $crate::Element for $name {
                const TYPE: u16 = $number;

                fn parse(content: &mut $crate::Reader<'_>) -> Result<$name, $crate::Fault> {
                    Ok($name(content.rest().into()))
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    out.extend(&self.0);
                }

                #[cfg(test)]
                fn sample(_: &mut $crate::tests::Draw) -> $name {
                    $name($crate::tests::opaque($number).into())
                }
            }
        )*
    };
}

/// One of several: `Name = 20, 4 bits { Access = 0, … }`. The first is the default; others are refused as incorrect.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $bits:literal bits {
        $($(#[$first_doc:meta])* $first:ident = $first_value:literal),+ $(,)?
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
            #[repr(u8)]
            pub enum $name {
                #[default]
                $($(#[$first_doc])* $first = $first_value),+
            }

            impl $crate::Element for $name {
                const TYPE: u16 = $number;

                fn parse(content: &mut $crate::Reader<'_>) -> Result<$name, $crate::Fault> {
                    match content.u8()? & ((1u16 << $bits) - 1) as u8 {
                        $($first_value => Ok($name::$first),)+
                        _ => Err(content.incorrect()),
                    }
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    out.push(*self as u8);
                }
            }
        )*
    };
}

/// Flags: `Name(u16) = 44, 2 octets { DROP = 0, … }`, numbered from bit 1 of octet 5 upwards, octet after octet.
///
/// Fewer octets than declared are read (earlier releases had fewer), more are ignored; as many as declared are sent, or
/// more if flags there are set.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident($repr:ty) = $number:literal, $octets:literal octets {
        $($(#[$flag_doc:meta])* $flag:ident = $bit:literal,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(pub $repr);

            impl $name {
                $($(#[$flag_doc])* pub const $flag: $name = $name(1 << $bit);)*

                /// No flag.
                pub const NONE: $name = $name(0);

                /// Whether all flags of `other` are set.
                pub const fn contains(self, other: $name) -> bool {
                    self.0 & other.0 == other.0
                }

                /// The names of the flags that are set and have one.
                pub fn names(self) -> impl Iterator<Item = &'static str> {
                    let named: &'static [(&'static str, $name)] = &[$((stringify!($flag), $name::$flag)),*];
                    named.iter().filter(move |(_, flag)| self.contains(*flag)).map(|(name, _)| *name)
                }

                /// Whether any flag of `other` is set.
                pub const fn intersects(self, other: $name) -> bool {
                    self.0 & other.0 != 0
                }
            }

            impl std::ops::BitOr for $name {
                type Output = $name;

                fn bitor(self, other: $name) -> $name {
                    $name(self.0 | other.0)
                }
            }

            impl std::ops::BitOrAssign for $name {
                fn bitor_assign(&mut self, other: $name) {
                    self.0 |= other.0;
                }
            }

            impl std::fmt::Debug for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    let named: &[(&str, $name)] = &[$((stringify!($flag), $name::$flag)),*];
                    let mut set = f.debug_tuple(stringify!($name));
                    let mut rest = self.0;
                    for (name, flag) in named.iter().filter(|(_, flag)| self.contains(*flag)) {
                        set.field(&format_args!("{name}"));
                        rest &= !flag.0;
                    }
                    if rest != 0 {
                        set.field(&format_args!("{rest:#x}"));
                    }
                    set.finish()
                }
            }

            impl $crate::Element for $name {
                const TYPE: u16 = $number;

                fn parse(content: &mut $crate::Reader<'_>) -> Result<$name, $crate::Fault> {
                    // Octet 5 is the lowest octet of the value.
                    let mut octets = [0; size_of::<$repr>()];
                    octets[0] = content.u8()?;
                    for octet in &mut octets[1..] {
                        *octet = if content.is_empty() { break } else { content.u8()? };
                    }
                    Ok($name(<$repr>::from_le_bytes(octets)))
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    let octets = self.0.to_le_bytes();
                    let used = octets.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
                    out.extend(&octets[..used.max($octets)]);
                }
            }
        )*
    };
}
