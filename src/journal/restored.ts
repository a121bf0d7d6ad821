/** More take-overs of a partition than happen between a backup and its use. Epochs go to 2^19 (`engine/ids.ts`). */
export const RESTORED_EPOCHS = 1024
