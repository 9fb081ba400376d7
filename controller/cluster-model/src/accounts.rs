//! The names by which the API server knows our programs, and the node of one that runs on each.

use crate::objects::Program;

/// Where the API server says of a user the node of the pod that the user's token is bound to.
pub const NODE_CLAIM: &str = "authentication.kubernetes.io/node-name";

/// The service accounts of our programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    namespace: String,
}

impl Accounts {
    /// Those of an installation in this namespace.
    pub fn of(namespace: &str) -> Accounts {
        Accounts { namespace: namespace.to_owned() }
    }

    /// How the API server calls a program.
    pub fn user(&self, program: Program) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, program.account())
    }

    /// The program that a user is, if it is one of ours.
    pub fn program(&self, user: &str) -> Option<Program> {
        Program::ALL.into_iter().find(|&program| self.user(program) == user)
    }
}
