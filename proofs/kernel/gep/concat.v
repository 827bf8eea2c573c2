(* gep.concat: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 4, implementation details.
   Divide the clipped embedding of each record by S_1 and its clipped residual by S_2, concatenate, and sum over the records: the sum has sensitivity sqrt 2. *)
From kernel Require Import definitions lemmas.

Definition record (S1 S2 : R) (w r : vec) : vec := scale (/ S1) (clip S1 w) ++ scale (/ S2) (clip S2 r).
Definition released D S1 S2 (data : list (vec * vec)) : vec := sum D (map (fun a => record S1 S2 (fst a) (snd a)) data).
(* one record added; every record has k + p = D entries *)
Definition printed : Prop := forall D S1 S2 w r data, 0 < S1 -> 0 < S2 ->
  Forall (fun a => length (fst a ++ snd a) = D) ((w, r) :: data) ->
  norm (sub (released D S1 S2 ((w, r) :: data)) (released D S1 S2 data)) <= sqrt 2.
