//! The variables of git that describe one repository, not the user: whoever is started in another work
//! tree must not inherit them (`git rev-parse --local-env-vars`). Nor may it inherit a reference's token.

use std::process::Command;

use crate::environment;

const LOCAL: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Takes them, and the variables with tokens, out of the environment of `command`.
pub(crate) fn clear(command: &mut Command) {
    for name in LOCAL {
        command.env_remove(name);
    }
    for name in environment::withheld() {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("GIT_CONFIG_KEY_") || text.starts_with("GIT_CONFIG_VALUE_") {
            command.env_remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_inherited() {
        environment::withhold("A_TOKEN_OF_THIS_TEST");
        let mut command = Command::new("true");
        clear(&mut command);
        let removed = |name: &str| command.get_envs().any(|(key, value)| key == name && value.is_none());
        assert!(removed("A_TOKEN_OF_THIS_TEST") && removed("GIT_DIR"));
    }
}
