//! Confinement of a program, and folders that no other user can write to.
//!
//! | module | what it does |
//! |---|---|
//! | [`confine`] | a program, or one of its threads, gives up the rights that it does not need before it reads foreign bytes |
//! | [`folder`] | a folder that no other user can write to is made, or the path to it is refused |
//!
//! The package depends on no other package of the workspace. Importers, the upload server, the launcher and
//! `coracle` use it.

pub mod confine;
pub mod folder;
