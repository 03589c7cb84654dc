//! The messages (7.3), those between nodes (7.4) and those about a session (7.5).

mod node;
mod session;

pub use node::*;
pub use session::*;

/// [`Message`], which is any of them.
macro_rules! messages {
    ($($name:ident,)*) => {
        /// Any message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant, reason = "moved a few times a message, never stored in numbers")]
        pub enum Message {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name),)*
        }

        impl Message {
            /// The type number (7.3).
            pub const fn message_type(&self) -> u8 {
                match self {
                    $(Message::$name(_) => $name::TYPE,)*
                }
            }

            /// The message of this type that these IEs are; `None` if the type is unknown.
            pub(crate) fn parse_ies(
                message_type: u8, ies: &mut crate::Reader<'_>,
            ) -> Option<Result<Message, crate::Fault>> {
                match message_type {
                    $($name::TYPE => Some($name::parse_ies(ies).map(Message::$name)),)*
                    _ => None,
                }
            }

            pub(crate) fn emit_ies(&self, out: &mut Vec<u8>) {
                match self {
                    $(Message::$name(message) => message.emit_ies(out),)*
                }
            }

            /// Any values, one message of each type.
            #[cfg(test)]
            pub(crate) fn samples(draw: &mut crate::tests::Draw) -> Vec<Message> {
                vec![$($name::sample_ies(draw).into()),*]
            }
        }

        $(impl $name {
            /// The octets of the message behind `header`.
            ///
            /// # Errors
            /// If it is too long.
            pub fn to_octets(&self, header: &crate::Header) -> Result<Vec<u8>, crate::TooLong> {
                let mut out = Vec::with_capacity(1024);
                self.write(header, &mut out)?;
                Ok(out)
            }

            /// Appends them.
            ///
            /// # Errors
            /// If it is too long; `out` is then as it was.
            pub fn write(&self, header: &crate::Header, out: &mut Vec<u8>) -> Result<(), crate::TooLong> {
                crate::packet::write(header, $name::TYPE, out, |out| self.emit_ies(out))
            }
        })*

        $(impl From<$name> for Message {
            fn from(message: $name) -> Message {
                Message::$name(message)
            }
        })*
    };
}

messages! {
    HeartbeatRequest,
    HeartbeatResponse,
    PfdManagementRequest,
    PfdManagementResponse,
    AssociationSetupRequest,
    AssociationSetupResponse,
    AssociationUpdateRequest,
    AssociationUpdateResponse,
    AssociationReleaseRequest,
    AssociationReleaseResponse,
    VersionNotSupportedResponse,
    NodeReportRequest,
    NodeReportResponse,
    SessionSetDeletionRequest,
    SessionSetDeletionResponse,
    SessionSetModificationRequest,
    SessionSetModificationResponse,
    SessionEstablishmentRequest,
    SessionEstablishmentResponse,
    SessionModificationRequest,
    SessionModificationResponse,
    SessionDeletionRequest,
    SessionDeletionResponse,
    SessionReportRequest,
    SessionReportResponse,
}

impl Message {
    /// Whether this is to be answered.
    pub const fn is_request(&self) -> bool {
        is_request(self.message_type())
    }

    /// Whether this is about a session, so that its header has a SEID.
    pub const fn is_session(&self) -> bool {
        self.message_type() >= SessionEstablishmentRequest::TYPE
    }
}

/// Whether messages of this type are to be answered.
pub const fn is_request(message_type: u8) -> bool {
    matches!(message_type, 1 | 3 | 5 | 7 | 9 | 12 | 14 | 16 | 50 | 52 | 54 | 56)
}
