/** `umbra completion SHELL`: the script that lets a shell call `umbra complete` at each TAB. */
import { exitCode } from "../exit.ts"

const bash = `# Completion of umbra for bash. To load it in every new shell, add to ~/.bashrc:  source <(umbra completion bash)
_umbra() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <("\${COMP_WORDS[0]}" complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _umbra umbra
`

const zsh = `#compdef umbra
# Completion of umbra for zsh. To load it in every new shell, add to ~/.zshrc, behind compinit:  source <(umbra completion zsh)
_umbra() {
  local -a described
  local line
  for line in "\${(@f)$("\${words[1]}" complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && described+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#described} )); then
    _describe -V umbra described
  else
    _files
  fi
}
compdef _umbra umbra
`

const fish = `# Completion of umbra for fish. To load it in every new shell:  umbra completion fish > ~/.config/fish/completions/umbra.fish
function __umbra_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (umbra complete -- $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c umbra -f -a '(__umbra_complete)'
`

const scripts = { bash, zsh, fish }

export async function completion(shell: keyof typeof scripts): Promise<number> {
  process.stdout.write(scripts[shell])
  return exitCode.ok
}
