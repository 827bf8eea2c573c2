(* gip.alg1: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Algorithm 1, lines 3 to 5.
   Get t as the 100k-th percentile of the elements |g_j|; I_j = 1 if |g_j| > t, else 0. Meant is top-k: K = k d entries are kept. *)
From kernel Require Import definitions lemmas.

Definition kept (t : R) (g : vec) : nat := length (filter (fun a => if Rlt_dec t (Rabs a) then true else false) g).
Definition at_most (t : R) (g : vec) : nat := length (filter (fun a => if Rle_dec (Rabs a) t then true else false) g).
(* t is a 100 (n/d)-th percentile: n of the d elements are at most t *)
Definition percentile (n : nat) (g : vec) (t : R) : Prop := at_most t g = n.
Definition printed : Prop := forall d K g t, (0 < K < d)%nat -> length g = d -> percentile K g t -> kept t g = K.
(* the 100(1 - k)-th *)
Definition correction : Prop := forall d K g t, (0 < K < d)%nat -> length g = d -> percentile (d - K) g t -> kept t g = K.
