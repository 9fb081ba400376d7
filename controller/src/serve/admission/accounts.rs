//! Who asks: one of our own programs, or somebody else.

use super::review::Who;

/// Where the API server says of a user the node of the pod that the user's token is bound to.
pub const NODE_CLAIM: &str = "authentication.kubernetes.io/node-name";

/// A program of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Program {
    Api,
    Controller,
    Handler,
}

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
        let account = match program {
            Program::Api => "kubevirt-apiserver",
            Program::Controller => "kubevirt-controller",
            Program::Handler => "kubevirt-handler",
        };
        format!("system:serviceaccount:{}:{account}", self.namespace)
    }

    /// The program that asks, if it is one of ours.
    pub(super) fn program(&self, who: &Who) -> Option<Program> {
        [Program::Api, Program::Controller, Program::Handler]
            .into_iter()
            .find(|&program| self.user(program) == who.name)
    }
}
