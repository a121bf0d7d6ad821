/** One process of the campaign, from its start to its death. */
import { Life, type LifeOptions } from "../../crash/life.ts"

export class ProviderLife extends Life {
  constructor(options: LifeOptions) {
    super({ program: new URL("./program.js", import.meta.url), ...options })
  }

  /** Where it takes webhooks. */
  async door(timeoutMs: number): Promise<string> {
    await this.says("door", timeoutMs)
    return /door (\S+)/.exec(this.output)?.[1] ?? ""
  }

  /** All its jobs before this one have ended; undefined: it has not said so of any. */
  get reached(): number | undefined {
    const last = this.output.slice(0, this.output.lastIndexOf("\n")).split("\n").at(-1)
    const number = /^reached (\d+)$/.exec(last ?? "")?.[1]
    return number === undefined ? undefined : Number(number)
  }
}
