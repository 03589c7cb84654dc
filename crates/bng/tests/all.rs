//! The broadband gateway's tests above those of its modules: one program, for what they share is much.
