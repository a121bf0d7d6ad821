/** Tables of the provider store (provider-store.ts). */
export const providerTables = ""
