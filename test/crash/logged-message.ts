/** What the program that is killed logs: every tenth message has three lines. */
export function messageOf(line: number): string {
  return line % 10 === 0 ? `line ${line}\n  with a second\nand a third` : `line ${line}`
}
