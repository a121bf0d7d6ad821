/** One process of the campaign, from its start to its death. */
import { Life, type LifeOptions } from "../../crash/life.ts"

export class ProviderLife extends Life {
  constructor(options: LifeOptions) {
    super({ program: new URL("./program.js", import.meta.url), ...options })
  }

  /** Where it takes webhooks. */
  async door(timeoutMs: number): Promise<string> {
    await this.says("door", timeoutMs)
    return /door (\S+)/.exec(this.said)?.[1] ?? ""
  }
}
