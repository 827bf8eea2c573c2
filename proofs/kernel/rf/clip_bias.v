(* rf.clip_bias: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 2.3.
   As fewer dimensions contribute to the norm, random freeze reduces the clipping probability "and therefore alleviates clipping bias". *)
From kernel Require Import definitions lemmas.

(* the bias of the clipped gradient of a finite law p, for the mask m: against the mean of what is clipped *)
Definition bias d C (p : law vec) (m : list bool) : R :=
  norm (sub (mean_vector d p (fun g => clip C (mask m g))) (mean_vector d p (mask m))).
Definition printed : Prop := forall d k C p, (0 < k <= d)%nat -> 0 < C -> lawful p -> in_space d p ->
  avg (masks d k) (fun m => bias d C p m) <= bias d C p (repeat true d).
(* what a mask never raises is E (|g| - C)+, which bounds the bias *)
Definition excess (C : R) (v : vec) : R := Rmax (norm v - C) 0.
Definition correction : Prop := forall d C p m, 0 < C -> lawful p -> in_space d p -> length m = d ->
  bias d C p m <= E p (fun g => excess C (mask m g)) <= E p (excess C).
