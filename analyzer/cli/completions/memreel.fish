# Fish completion for memreel. Commands and options come from the program's own help, so they are always up to date.
function __memreel_commands
    env COLUMNS=400 memreel --help | string replace --filter --regex '^  ([a-z]+)  +(.*)' '$1\t$2'
end

function __memreel_options
    set -l command (commandline --tokenize --cut-at-cursor --current-process)[2]
    env COLUMNS=400 memreel $command --help | string replace --filter --regex '^  (?:-\w,)?(--[a-z0-9-]+)[^ ]*(?: \S+)*(?:  +(.*))?$' '$1\t$2'
end

complete --command memreel --condition __fish_use_subcommand --no-files --arguments '(__memreel_commands)'
complete --command memreel --condition 'not __fish_use_subcommand; and string match --quiet -- "-*" (commandline --current-token)' \
    --no-files --arguments '(__memreel_options)'
