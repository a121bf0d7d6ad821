/**
 * The last lines of a terminal, redrawn in place.
 *
 * 1. One write per frame; each line is overwritten and then cleared to its end. No line is ever blank in between, so
 *    the view does not flicker.
 * 2. The cursor is always restored: on `close`, and when the process exits.
 */
import { stripVTControlCharacters } from "node:util"
import { width } from "../output/terminal.ts"

export interface Terminal {
  readonly columns: number
  readonly rows: number
  write(text: string): unknown
}

const HIDE_CURSOR = "\x1b[?25l"
const SHOW_CURSOR = "\x1b[?25h"
const CLEAR_LINE_END = "\x1b[K"
const CLEAR_BELOW = "\x1b[J"

export class Screen {
  readonly #terminal: Terminal
  #drawn: readonly string[] = []
  #isOpen = false
  readonly #onExit = () => this.close()

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  draw(lines: readonly string[]): void {
    if (!this.#isOpen) this.#open()
    this.#terminal.write(
      `${this.#top()}${lines.map(line => `${line}${CLEAR_LINE_END}\n`).join("")}${CLEAR_BELOW}`,
    )
    this.#drawn = lines
  }

  /** Prints a permanent line above the redrawn ones. */
  print(text: string): void {
    const drawn = this.#drawn.map(line => `${line}${CLEAR_LINE_END}\n`).join("")
    this.#terminal.write(`${this.#top()}${text}${CLEAR_LINE_END}\n${drawn}${CLEAR_BELOW}`)
  }

  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    process.off("exit", this.#onExit)
    this.#terminal.write(SHOW_CURSOR)
    this.#drawn = []
  }

  #open(): void {
    this.#isOpen = true
    process.on("exit", this.#onExit)
    this.#terminal.write(HIDE_CURSOR)
  }

  /** Moves to the first redrawn line. A terminal that was made narrower has wrapped long lines. */
  #top(): string {
    const columns = Math.max(1, this.#terminal.columns)
    const rows = this.#drawn.map(line =>
      Math.max(1, Math.ceil(width(stripVTControlCharacters(line)) / columns)),
    )
    const up = rows.reduce((sum, lines) => sum + lines, 0)
    return up === 0 ? "\r" : `\r\x1b[${up}A`
  }
}
