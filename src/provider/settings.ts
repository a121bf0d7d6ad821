/** The settings of external work that a provider does not set itself (S10). */
import {
  amount,
  type Setting,
  type SettingsOf,
  settingNames,
  settingsReader,
  wholeNumber,
} from "../settings.ts"

const seconds: Setting<readonly number[]> = {
  ...settingNames("poll_seconds"),
  default: [30, 60, 120],
  read: text => text.split(",").map(Number),
  wrong: value =>
    value.length > 0 && value.every(each => Number.isFinite(each) && each > 0)
      ? undefined
      : "numbers above 0, joined by commas",
}

const share: Setting<number> = {
  ...settingNames("poll_jitter"),
  default: 0.1,
  read: Number,
  wrong: value => (value >= 0 && value <= 1 ? undefined : "a number between 0 and 1"),
}

export const providerTable = {
  /** Concurrent operations of one provider, over all processes (X5). */
  providerConcurrency: wholeNumber("provider_concurrency", 1),
  /** Requests per second to one provider, over all processes (X6). */
  providerRate: amount("provider_rate", 10),
  /** The intervals at which operations are polled (X3). */
  pollSeconds: seconds,
  pollJitter: share,
  /** For one call of a provider's poll or cancel. */
  providerTimeoutSeconds: amount("provider_timeout_seconds", 30),
  /** Larger webhooks are rejected. */
  webhookMaxBytes: wholeNumber("webhook_max_bytes", 1024 * 1024),
  /** How old, or how far in the future, a signed time may be. */
  webhookToleranceSeconds: amount("webhook_tolerance_seconds", 300),
}

export type ProviderSettings = SettingsOf<typeof providerTable>

export const providerSettings = settingsReader<ProviderSettings>(providerTable)
