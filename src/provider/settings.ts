/** The settings of external work, used where a provider does not set its own (S10). */
import { amount, readSettings, type Setting, type SettingTable, wholeNumber } from "../settings.ts"

export interface ProviderSettings {
  /** Concurrent operations of one provider, over all processes (X5). */
  readonly providerConcurrency: number
  /** Requests per second to one provider, over all processes (X6). */
  readonly providerRate: number
  /** The intervals at which operations are polled (X3). */
  readonly pollSeconds: readonly number[]
  readonly pollJitter: number
  /** For one call of a provider's poll or cancel. */
  readonly providerTimeoutSeconds: number
  /** Larger webhooks are rejected. */
  readonly webhookMaxBytes: number
  /** How old, or how far in the future, a signed time may be. */
  readonly webhookToleranceSeconds: number
}

const seconds: Setting<readonly number[]> = {
  variable: "UMBRA_POLL_SECONDS",
  default: [30, 60, 120],
  read: text => text.split(",").map(Number),
  wrong: value =>
    value.length > 0 && value.every(each => Number.isFinite(each) && each > 0)
      ? undefined
      : "numbers above 0, joined by commas",
}

const share: Setting<number> = {
  variable: "UMBRA_POLL_JITTER",
  default: 0.1,
  read: Number,
  wrong: value => (value >= 0 && value <= 1 ? undefined : "a number between 0 and 1"),
}

export const providerTable: SettingTable<ProviderSettings> = {
  providerConcurrency: wholeNumber("UMBRA_PROVIDER_CONCURRENCY", 1),
  providerRate: amount("UMBRA_PROVIDER_RATE", 10),
  pollSeconds: seconds,
  pollJitter: share,
  providerTimeoutSeconds: amount("UMBRA_PROVIDER_TIMEOUT_SECONDS", 30),
  webhookMaxBytes: wholeNumber("UMBRA_WEBHOOK_MAX_BYTES", 1024 * 1024),
  webhookToleranceSeconds: amount("UMBRA_WEBHOOK_TOLERANCE_SECONDS", 300),
}

export function providerSettings(given?: Partial<ProviderSettings>): ProviderSettings {
  return readSettings(providerTable, given)
}
