(* gep.concat: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 4, implementation details.
   Divide the clipped embedding of each record by S_1 and its clipped residual by S_2, concatenate, and sum over the records: the sum has sensitivity sqrt 2. *)
From kernel Require Import definitions lemmas.

Definition record (S1 S2 : R) (w r : vec) : vec := scale (/ S1) (clip S1 w) ++ scale (/ S2) (clip S2 r).
Definition released D S1 S2 (data : list (vec * vec)) : vec := sum D (map (fun a => record S1 S2 (fst a) (snd a)) data).
(* one record added; every record has k + p = D entries *)
Definition printed : Prop := forall D S1 S2 w r data, 0 < S1 -> 0 < S2 ->
  Forall (fun a => length (fst a ++ snd a) = D) ((w, r) :: data) ->
  norm (sub (released D S1 S2 ((w, r) :: data)) (released D S1 S2 data)) <= sqrt 2.

Lemma part S v : 0 < S -> square (scale (/ S) (clip S v)) <= 1.
Proof.
  intro S0. rewrite square_scale, <- norm_norm. pose proof (norm_clip_le S v ltac:(lra)). pose proof (norm_nonneg (clip S v)).
  assert (0 < / S) by (apply Rinv_0_lt_compat; exact S0). assert (i : / S * S = 1) by (field; lra).
  assert (a : / S * norm (clip S v) <= 1) by (rewrite <- i; apply Rmult_le_compat_l; lra). assert (0 <= / S * norm (clip S v)) by (apply Rmult_le_pos; lra).
  replace (/ S * / S * (norm (clip S v) * norm (clip S v))) with (/ S * norm (clip S v) * (/ S * norm (clip S v))) by ring. nra.
Qed.
Theorem printed_holds : printed.
Proof.
  intros D S1 S2 w r data a b F. unfold released. cbn [map]. unfold sum. cbn [fold_right fst snd].
  assert (L : forall x y, length (record S1 S2 x y) = length (x ++ y)) by (intros; unfold record; rewrite !app_length, !length_scale, !length_clip; reflexivity).
  rewrite sub_same.
  - unfold record, norm. apply sqrt_le_1_alt. rewrite square_app. pose proof (part S1 w a). pose proof (part S2 r b). lra.
  - rewrite L. pose proof (Forall_inv F) as q. cbn [fst snd] in q. rewrite q. symmetry. apply (length_sum D). apply Forall_map. eapply Forall_impl; [|apply (Forall_inv_tail F)].
    simpl. intros [x y] l. rewrite L. exact l.
Qed.
