//! Accounts of our programs at the API server, and the node in a program's token.

use crate::objects::Program;

/// Key in a user's `extra` for the node of the pod that the token is bound to.
pub const NODE_CLAIM: &str = "authentication.kubernetes.io/node-name";

/// The service accounts of our programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    namespace: String,
}

impl Accounts {
    /// The accounts of an installation in this namespace.
    pub fn new(namespace: &str) -> Accounts {
        Accounts { namespace: namespace.to_owned() }
    }

    /// Namespace of the installation.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// User name of a program at the API server.
    pub fn user(&self, program: Program) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, program.account())
    }

    /// The program with this user name, if it is one of ours.
    pub fn program(&self, user: &str) -> Option<Program> {
        Program::ALL.into_iter().find(|&program| self.user(program) == user)
    }
}
