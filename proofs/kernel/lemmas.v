(* What the proofs share: sums, norms, clipping, masks, finite laws. *)
From kernel Require Import definitions.

(* --- sums ------------------------------------------------------------------------------------------------------------ *)
Lemma total_app l l' : total (l ++ l') = total l + total l'.
Proof. induction l; simpl; [lra | rewrite IHl; lra]. Qed.
Lemma total_map_scale {A} c (f : A -> R) l : total (map (fun a => c * f a) l) = c * total (map f l).
Proof. induction l; simpl; [lra | rewrite IHl; lra]. Qed.
Lemma total_map_add {A} (f g : A -> R) l : total (map (fun a => f a + g a) l) = total (map f l) + total (map g l).
Proof. induction l; simpl; [lra | rewrite IHl; lra]. Qed.
Lemma total_map_ext {A} (f g : A -> R) l : Forall (fun a => f a = g a) l -> total (map f l) = total (map g l).
Proof. induction 1; simpl; [reflexivity | rewrite H, IHForall; reflexivity]. Qed.
Lemma total_map_le {A} (f g : A -> R) l : Forall (fun a => f a <= g a) l -> total (map f l) <= total (map g l).
Proof. induction 1; simpl; lra. Qed.
Lemma total_constant {A} c (l : list A) : total (map (fun _ => c) l) = INR (length l) * c.
Proof. induction l; [simpl; lra|]. cbn [map total fold_right length]. fold (total (map (fun _ : A => c) l)).
  rewrite IHl, S_INR. lra. Qed.
Lemma total_perm l l' : Permutation l l' -> total l = total l'.
Proof. induction 1; simpl; lra. Qed.

(* --- vectors --------------------------------------------------------------------------------------------------------- *)
Lemma length_zip f u v : length u = length v -> length (zip f u v) = length u.
Proof. revert v; induction u; destruct v; simpl; intro e; try discriminate; [reflexivity|]. f_equal. apply IHu. lia. Qed.
Lemma length_add u v : length u = length v -> length (add u v) = length u.
Proof. apply length_zip. Qed.
Lemma length_sub u v : length u = length v -> length (sub u v) = length u.
Proof. apply length_zip. Qed.
Lemma length_scale c v : length (scale c v) = length v.
Proof. apply map_length. Qed.
Lemma length_opp v : length (opp v) = length v.
Proof. apply map_length. Qed.
Lemma length_zero d : length (zero d) = d.
Proof. apply repeat_length. Qed.
Lemma length_sum d vs : Forall (fun v => length v = d) vs -> length (sum d vs) = d.
Proof. induction 1; [apply length_zero|]. change (sum d (x :: l)) with (add x (sum d l)).
  rewrite length_add; congruence. Qed.
Lemma length_clip C v : length (clip C v) = length v.
Proof. apply length_scale. Qed.
Lemma length_average d vs : Forall (fun v => length v = d) vs -> length (average d vs) = d.
Proof. intro. unfold average. rewrite length_scale. apply length_sum; assumption. Qed.

Lemma dot_cons a u b v : dot (a :: u) (b :: v) = a * b + dot u v.
Proof. reflexivity. Qed.
Lemma square_cons a u : square (a :: u) = a * a + square u.
Proof. reflexivity. Qed.
Lemma dot_comm u v : dot u v = dot v u.
Proof. revert v; induction u; destruct v; try reflexivity. rewrite !dot_cons, IHu. lra. Qed.
Lemma dot_scale c u v : dot (scale c u) v = c * dot u v.
Proof. revert v; induction u; destruct v; try (unfold dot; simpl; lra).
  change (scale c (a :: u)) with (c * a :: scale c u). rewrite !dot_cons, IHu. lra. Qed.
Lemma dot_add u v z : length u = length v -> dot (add u v) z = dot u z + dot v z.
Proof. revert v z; induction u; destruct v; simpl; intros z e; try discriminate; [unfold dot; simpl; lra|].
  destruct z; [unfold dot; simpl; lra|]. change (add (a :: u) (r :: v)) with (a + r :: add u v).
  rewrite !dot_cons, IHu by lia. lra. Qed.
Lemma dot_sub u v z : length u = length v -> dot (sub u v) z = dot u z - dot v z.
Proof. revert v z; induction u; destruct v; simpl; intros z e; try discriminate; [unfold dot; simpl; lra|].
  destruct z; [unfold dot; simpl; lra|]. change (sub (a :: u) (r :: v)) with (a - r :: sub u v).
  rewrite !dot_cons, IHu by lia. lra. Qed.
Lemma dot_zero d u : dot (zero d) u = 0.
Proof. revert u; induction d; destruct u; try reflexivity. change (zero (S d)) with (0 :: zero d).
  rewrite dot_cons, IHd. lra. Qed.
Lemma square_nonneg v : 0 <= square v.
Proof. induction v; [unfold square, dot; simpl; lra|]. rewrite square_cons. nra. Qed.
Lemma square_scale c v : square (scale c v) = c * c * square v.
Proof. unfold square. rewrite dot_scale, dot_comm, dot_scale. lra. Qed.
Lemma square_add u v : length u = length v -> square (add u v) = square u + 2 * dot u v + square v.
Proof. intro e. unfold square. rewrite dot_add by exact e.
  rewrite (dot_comm u (add u v)), (dot_comm v (add u v)), !dot_add by exact e. rewrite (dot_comm v u). lra. Qed.
Lemma square_sub u v : length u = length v -> square (sub u v) = square u - 2 * dot u v + square v.
Proof. intro e. unfold square. rewrite dot_sub by exact e.
  rewrite (dot_comm u (sub u v)), (dot_comm v (sub u v)), !dot_sub by exact e. rewrite (dot_comm v u). lra. Qed.
Lemma norm_nonneg v : 0 <= norm v.
Proof. apply sqrt_pos. Qed.
Lemma norm_norm v : norm v * norm v = square v.
Proof. apply sqrt_sqrt, square_nonneg. Qed.
Lemma norm_is v n : 0 <= n -> square v = n * n -> norm v = n.
Proof. intros n0 e. unfold norm. rewrite e. apply sqrt_square; exact n0. Qed.
Lemma norm_scale c v : norm (scale c v) = Rabs c * norm v.
Proof. unfold norm. rewrite square_scale, sqrt_mult_alt by nra. f_equal. apply sqrt_Rsqr_abs. Qed.
Lemma square_le_norm_le u v : square u <= square v -> norm u <= norm v.
Proof. intro. apply sqrt_le_1_alt; assumption. Qed.
Lemma norm_le v n : 0 <= n -> square v <= n * n -> norm v <= n.
Proof. intros. rewrite <- (sqrt_square n) by assumption. apply sqrt_le_1_alt; assumption. Qed.
Lemma norm_cons_ge a v : norm v <= norm (a :: v).
Proof. apply square_le_norm_le. rewrite square_cons. nra. Qed.

Lemma cauchy_schwarz_square u v : dot u v * dot u v <= square u * square v.
Proof.
  revert v; induction u as [|a u IH]; intro v.
  - change (dot [] v) with 0. pose proof (square_nonneg v). pose proof (square_nonneg []). nra.
  - destruct v as [|b v].
    { change (dot (a :: u) []) with 0. pose proof (square_nonneg (a :: u)). pose proof (square_nonneg []). nra. }
    rewrite dot_cons, !square_cons. specialize (IH v).
    pose proof (norm_norm u) as es. pose proof (norm_norm v) as et.
    pose proof (norm_nonneg u) as s0. pose proof (norm_nonneg v) as t0.
    rewrite <- es, <- et in *. set (s := norm u) in *. set (t := norm v) in *. set (D := dot u v) in *.
    clearbody s t D. clear es et.
    assert (hD : Rabs D <= s * t).
    { apply Rsqr_incr_0_var; [rewrite <- Rsqr_abs; unfold Rsqr; lra | apply Rmult_le_pos; assumption]. }
    assert (hX : a * b * D <= Rabs a * Rabs b * (s * t)).
    { eapply Rle_trans; [apply Rle_abs|]. rewrite !Rabs_mult. apply Rmult_le_compat_l; [|exact hD].
      apply Rmult_le_pos; apply Rabs_pos. }
    assert (ea : a * a = Rabs a * Rabs a) by apply Rsqr_abs.
    assert (eb : b * b = Rabs b * Rabs b) by apply Rsqr_abs.
    pose proof (Rle_0_sqr (Rabs a * t - Rabs b * s)) as hS. unfold Rsqr in hS.
    replace ((a * b + D) * (a * b + D)) with (a * a * (b * b) + 2 * (a * b * D) + D * D) by ring.
    rewrite ea, eb. lra.
Qed.
Lemma cauchy_schwarz u v : dot u v <= norm u * norm v.
Proof.
  pose proof (cauchy_schwarz_square u v) as h. rewrite <- (norm_norm u), <- (norm_norm v) in h.
  pose proof (norm_nonneg u). pose proof (norm_nonneg v).
  apply Rsqr_incr_0_var; [unfold Rsqr; nra | nra].
Qed.
Lemma norm_add u v : length u = length v -> norm (add u v) <= norm u + norm v.
Proof.
  intro e. pose proof (norm_nonneg u). pose proof (norm_nonneg v).
  apply norm_le; [lra|]. rewrite square_add by exact e.
  pose proof (cauchy_schwarz u v). rewrite <- (norm_norm u), <- (norm_norm v). nra.
Qed.
Lemma sub_add_scale u v : sub u v = add u (scale (-1) v).
Proof. revert v; induction u; destruct v; try reflexivity. unfold sub, add in *; simpl. rewrite IHu. f_equal. lra. Qed.
Lemma norm_sub u v : length u = length v -> norm (sub u v) <= norm u + norm v.
Proof.
  intro e. rewrite sub_add_scale. pose proof (norm_add u (scale (-1) v)) as h.
  rewrite length_scale in h. specialize (h e). rewrite norm_scale in h.
  replace (Rabs (-1)) with 1 in h by (rewrite Rabs_left; lra). lra.
Qed.
Lemma norm_zero d : norm (zero d) = 0.
Proof. apply norm_is; [lra|]. unfold square. rewrite dot_zero. lra. Qed.
Lemma norm_sum d vs c : Forall (fun v => length v = d /\ norm v <= c) vs -> norm (sum d vs) <= INR (length vs) * c.
Proof.
  induction 1 as [|v l [e n] F IH]; [simpl; rewrite norm_zero; lra|].
  change (sum d (v :: l)) with (add v (sum d l)). cbn [length]. rewrite S_INR.
  assert (Forall (fun v => length v = d) l) by (eapply Forall_impl; [|exact F]; intros ? [? ?]; assumption).
  pose proof (norm_add v (sum d l)) as h. rewrite length_sum in h by assumption. specialize (h e). lra.
Qed.

(* --- clipping -------------------------------------------------------------------------------------------------------- *)
Lemma null_entries v : square v = 0 -> forall c, scale c v = v.
Proof.
  induction v as [|a v IH]; [reflexivity|]. rewrite square_cons. intros e c.
  pose proof (square_nonneg v). assert (a = 0) by nra. assert (square v = 0) by nra.
  change (scale c (a :: v)) with (c * a :: scale c v). rewrite IH by assumption. f_equal. subst; lra.
Qed.
Lemma scale_one v : scale 1 v = v.
Proof. induction v; [reflexivity|]. change (scale 1 (a :: v)) with (1 * a :: scale 1 v). rewrite IHv. f_equal; lra. Qed.
Lemma clip_short C v : norm v <= C -> clip C v = v.
Proof.
  intro le. destruct (Req_dec (square v) 0) as [z|nz]; [apply null_entries; exact z|].
  pose proof (square_nonneg v). assert (0 < norm v) by (apply sqrt_lt_R0; lra).
  unfold clip. rewrite Rmin_left; [apply scale_one|].
  apply (Rmult_le_reg_r (norm v)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.
Lemma clip_long C v : 0 < norm v -> C <= norm v -> clip C v = scale (C / norm v) v.
Proof.
  intros n0 le. unfold clip. rewrite Rmin_right; [reflexivity|].
  apply (Rmult_le_reg_r (norm v)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.
Lemma norm_clip C v : 0 <= C -> norm (clip C v) = Rmin (norm v) C.
Proof.
  intro c0. destruct (Rle_dec (norm v) C) as [le|gt].
  - rewrite clip_short, Rmin_left by exact le. reflexivity.
  - assert (0 < norm v) by lra. rewrite clip_long, norm_scale, Rmin_right by lra.
    rewrite Rabs_pos_eq; [field; lra|]. apply Rmult_le_pos; [lra|]. apply Rlt_le, Rinv_0_lt_compat; lra.
Qed.
Lemma norm_clip_le C v : 0 <= C -> norm (clip C v) <= C.
Proof. intro. rewrite norm_clip by assumption. apply Rmin_r. Qed.

(* --- masks ----------------------------------------------------------------------------------------------------------- *)
Lemma length_mask m v : length m = length v -> length (mask m v) = length v.
Proof. revert v; induction m; destruct v; simpl; intro e; try discriminate; [reflexivity|]. f_equal. apply IHm. lia. Qed.
Lemma square_mask m v : square (mask m v) <= square v.
Proof.
  revert v; induction m as [|b m IH]; intros [|a v]; try (unfold square, dot; simpl; lra).
  - apply (square_nonneg (a :: v)).
  - simpl. rewrite !square_cons. specialize (IH v). destruct b; nra.
Qed.
Lemma norm_mask m v : norm (mask m v) <= norm v.
Proof. apply square_le_norm_le, square_mask. Qed.
Lemma mask_scale m c v : mask m (scale c v) = scale c (mask m v).
Proof. revert v; induction m as [|b m IH]; intros [|a v]; try reflexivity. simpl. rewrite IH.
  f_equal. destruct b; lra. Qed.
Lemma mask_add m u v : mask m (add u v) = add (mask m u) (mask m v).
Proof. revert u v; induction m as [|b m IH]; intros [|a u] [|c v]; try reflexivity.
  unfold add in *; simpl. rewrite IH. f_equal. destruct b; lra. Qed.
Lemma dot_mask m u v : dot (mask m u) (mask m v) = dot (mask m u) v.
Proof. revert u v; induction m as [|b m IH]; intros [|a u] [|c v]; try reflexivity.
  simpl. rewrite !dot_cons, IH. destruct b; lra. Qed.
Lemma masks_length d k : Forall (fun m => length m = d) (masks d k).
Proof.
  revert k; induction d; intros [|k]; simpl; try (constructor; auto; constructor).
  - apply Forall_map. eapply Forall_impl; [|apply IHd]. simpl; intros; lia.
  - apply Forall_app; split; apply Forall_map; (eapply Forall_impl; [|apply IHd]; simpl; intros; lia).
Qed.
Lemma masks_ones d k : Forall (fun m => ones m = k) (masks d k).
Proof.
  revert k; induction d; intros [|k]; simpl; try (constructor; auto; constructor).
  - apply Forall_map. eapply Forall_impl; [|apply IHd]. simpl; intros; assumption.
  - apply Forall_app; split; apply Forall_map; (eapply Forall_impl; [|apply IHd]; unfold ones; simpl; intros; lia).
Qed.
Definition number d k := INR (length (masks d k)).
Lemma number_none d k : (d < k)%nat -> number d k = 0.
Proof.
  unfold number. revert k; induction d; intros [|k] l; try lia; [reflexivity|].
  simpl. rewrite app_length, plus_INR, !map_length, !IHd by lia. lra.
Qed.
Lemma number_pascal d k : number (S d) (S k) = number d k + number d (S k).
Proof. unfold number. simpl. rewrite app_length, plus_INR, !map_length. reflexivity. Qed.
Lemma number_zero d : number d 0 = 1.
Proof. unfold number. induction d; [reflexivity|]. simpl. rewrite map_length. exact IHd. Qed.
Lemma number_next d k : INR (S k) * number d (S k) = (INR d - INR k) * number d k.
Proof.
  revert k; induction d as [|d IH]; intro k.
  - destruct k; [rewrite number_none, number_zero by lia; simpl; lra|]. rewrite !number_none by lia. lra.
  - destruct k as [|k].
    + rewrite number_pascal, !number_zero. specialize (IH O). rewrite number_zero in IH.
      change (INR 1) with 1 in *. change (INR 0) with 0 in *. rewrite (S_INR d). lra.
    + rewrite !(number_pascal d). pose proof (IH k) as a. pose proof (IH (S k)) as b.
      rewrite (S_INR (S k)), (S_INR k), (S_INR d) in *. lra.
Qed.
Lemma number_absorb d k : INR (S k) * number (S d) (S k) = INR (S d) * number d k.
Proof. rewrite number_pascal. pose proof (number_next d k). rewrite !S_INR in *. lra. Qed.
Lemma number_pos d k : (k <= d)%nat -> 0 < number d k.
Proof.
  revert k; induction d as [|d IH]; intros k l.
  - replace k with O by lia. rewrite number_zero. lra.
  - destruct k as [|k]; [rewrite number_zero; lra|]. rewrite number_pascal. pose proof (IH k ltac:(lia)).
    destruct (Nat.eq_dec k d) as [->|]; [rewrite (number_none d (S d)) by lia; lra|].
    pose proof (IH (S k) ltac:(lia)). lra.
Qed.
Definition over_masks d k (f : list bool -> R) := total (map f (masks d k)).
Lemma over_masks_step d k f :
  over_masks (S d) (S k) f = over_masks d k (fun m => f (true :: m)) + over_masks d (S k) (fun m => f (false :: m)).
Proof. unfold over_masks. simpl. rewrite map_app, total_app, !map_map. reflexivity. Qed.
Lemma over_masks_none d f : over_masks (S d) 0 f = over_masks d 0 (fun m => f (false :: m)).
Proof. unfold over_masks. simpl. rewrite map_map. reflexivity. Qed.
Lemma over_masks_add d k f g : over_masks d k (fun m => f m + g m) = over_masks d k f + over_masks d k g.
Proof. apply total_map_add. Qed.
Lemma over_masks_constant d k c : over_masks d k (fun _ => c) = number d k * c.
Proof. apply total_constant. Qed.
Lemma over_masks_ext d k f g : (forall m, f m = g m) -> over_masks d k f = over_masks d k g.
Proof. intro h. apply total_map_ext, Forall_forall. intros; apply h. Qed.

(* the sum over all masks of <m (.) u, v> *)
Lemma masked_dot_sum d k u v : length u = d -> length v = d ->
  INR d * over_masks d k (fun m => dot (mask m u) v) = INR k * number d k * dot u v.
Proof.
  revert k u v; induction d as [|d IH]; intros k [|a u] [|b v]; simpl length; intros eu ev; try discriminate.
  - change (dot [] []) with 0. rewrite (over_masks_ext _ _ _ (fun _ => 0)), over_masks_constant by
      (intro m; destruct m; reflexivity). lra.
  - injection eu as eu. injection ev as ev. destruct k as [|k].
    + rewrite over_masks_none. specialize (IH O u v eu ev).
      rewrite (over_masks_ext _ _ _ (fun m => dot (mask m u) v)) by (intro; simpl; rewrite dot_cons; lra).
      rewrite Rmult_0_l, Rmult_0_l in IH.
      destruct d; [|assert (0 < INR (S d)) by (apply lt_0_INR; lia)].
      * destruct u, v; try discriminate. rewrite (over_masks_ext _ _ _ (fun _ => 0)), over_masks_constant by
          (intro m; destruct m; reflexivity). simpl; lra.
      * apply Rmult_integral in IH. destruct IH as [z|z]; [lra|]. rewrite z. simpl; lra.
    + rewrite over_masks_step.
      rewrite (over_masks_ext _ _ (fun m => dot (mask (true :: m) (a :: u)) (b :: v)) (fun m => a * b + dot (mask m u) v))
        by (intro; reflexivity).
      rewrite (over_masks_ext _ _ (fun m => dot (mask (false :: m) (a :: u)) (b :: v)) (fun m => dot (mask m u) v))
        by (intro; simpl; rewrite dot_cons; lra).
      rewrite over_masks_add, over_masks_constant, dot_cons.
      pose proof (IH k u v eu ev) as h1. pose proof (IH (S k) u v eu ev) as h2.
      set (X := over_masks d k (fun m => dot (mask m u) v)) in *.
      set (Y := over_masks d (S k) (fun m => dot (mask m u) v)) in *.
      pose proof (number_absorb d k) as h3. pose proof (number_next d k) as h4.
      replace (INR (S k) * number (S d) (S k) * (a * b + dot u v))
        with (INR (S d) * number d k * (a * b) + INR (S d) * number d k * dot u v) by (rewrite <- h3; ring).
      destruct d.
      * destruct u, v; try discriminate. replace X with 0; [replace Y with 0|].
        -- change (dot [] []) with 0. ring.
        -- unfold Y. rewrite (over_masks_ext _ _ _ (fun _ => 0)), over_masks_constant by (intro m; destruct m; reflexivity). ring.
        -- unfold X. rewrite (over_masks_ext _ _ _ (fun _ => 0)), over_masks_constant by (intro m; destruct m; reflexivity). ring.
      * assert (0 < INR (S d)) by (apply lt_0_INR; lia).
        assert (X + Y = number (S d) k * dot u v).
        { apply (Rmult_eq_reg_l (INR (S d))); [|lra]. rewrite Rmult_plus_distr_l, h1, h2, h4. ring. }
        replace (number (S d) k * (a * b) + X + Y) with (number (S d) k * (a * b) + (X + Y)) by ring.
        rewrite H0. ring.
Qed.

(* --- means ----------------------------------------------------------------------------------------------------------- *)
Lemma avg_masks d k f : avg (masks d k) f = over_masks d k f / number d k.
Proof. reflexivity. Qed.
Lemma avg_scale {A} (l : list A) c f : avg l (fun a => c * f a) = c * avg l f.
Proof. unfold avg. rewrite total_map_scale. unfold Rdiv. ring. Qed.
Lemma avg_add {A} (l : list A) f g : avg l (fun a => f a + g a) = avg l f + avg l g.
Proof. unfold avg. rewrite total_map_add. unfold Rdiv. ring. Qed.
Lemma avg_constant {A} (l : list A) c : l <> [] -> avg l (fun _ => c) = c.
Proof. intro n. unfold avg. rewrite total_constant. field. destruct l; [congruence|]. apply not_0_INR. simpl; lia. Qed.
Lemma avg_le {A} (l : list A) f g : Forall (fun a => f a <= g a) l -> avg l f <= avg l g.
Proof.
  intro h. destruct l as [|a l]; [unfold avg; simpl; lra|]. apply Rmult_le_compat_r; [|apply total_map_le; exact h].
  apply Rlt_le, Rinv_0_lt_compat, lt_0_INR. simpl; lia.
Qed.
Lemma avg_ext {A} (l : list A) f g : Forall (fun a => f a = g a) l -> avg l f = avg l g.
Proof. intro h. unfold avg. rewrite (total_map_ext _ _ _ h). reflexivity. Qed.
Lemma avg_square {A} (l : list A) f : l <> [] -> avg l f * avg l f <= avg l (fun a => f a * f a).
Proof.
  intro n. set (mu := avg l f). assert (0 <= avg l (fun a => (f a - mu) * (f a - mu))).
  { rewrite <- (avg_constant l 0 n). apply avg_le, Forall_forall. intros; apply Rle_0_sqr. }
  rewrite (avg_ext _ _ (fun a => f a * f a + (-2 * mu * f a + mu * mu))) in H by (apply Forall_forall; intros; lra).
  rewrite avg_add, (avg_add l (fun a => -2 * mu * f a) (fun _ => mu * mu)), avg_scale, avg_constant in H by exact n.
  fold mu in H. lra.
Qed.
Lemma masks_some d k : (k <= d)%nat -> masks d k <> [].
Proof. intros l e. pose proof (number_pos d k l) as h. unfold number in h. rewrite e in h. simpl in h. lra. Qed.

(* E <m (.) u, v> = (1 - r) <u, v> for a uniform mask *)
Lemma masked_dot d k u v : (k <= d)%nat -> (0 < d)%nat -> length u = d -> length v = d ->
  avg (masks d k) (fun m => dot (mask m u) v) = share d k * dot u v.
Proof.
  intros kd d0 eu ev. rewrite avg_masks. pose proof (masked_dot_sum d k u v eu ev) as h.
  pose proof (number_pos d k kd). assert (0 < INR d) by (apply lt_0_INR; exact d0).
  unfold share. apply (Rmult_eq_reg_l (INR d)); [|lra].
  unfold Rdiv. rewrite <- Rmult_assoc, h. field. lra.
Qed.
Lemma masked_square d k u : (k <= d)%nat -> (0 < d)%nat -> length u = d ->
  avg (masks d k) (fun m => square (mask m u)) = share d k * square u.
Proof.
  intros kd d0 eu. unfold square. rewrite <- masked_dot by assumption.
  apply avg_ext, Forall_forall. intros m _. apply dot_mask.
Qed.

(* --- finite laws ------------------------------------------------------------------------------------------------------ *)
Lemma E_le {A} (p : law A) f g : Forall (fun a => 0 <= fst a) p -> (forall a, f a <= g a) -> E p f <= E p g.
Proof.
  intros n h. apply total_map_le. eapply Forall_impl; [|exact n]. intros [q a]; simpl; intro q0.
  apply Rmult_le_compat_l; auto.
Qed.
Lemma E_constant {A} (p : law A) c : lawful p -> E p (fun _ => c) = c.
Proof.
  intros [_ one]. unfold E.
  rewrite (total_map_ext _ (fun a => c * fst a)) by (apply Forall_forall; intros; ring).
  rewrite total_map_scale, one. ring.
Qed.
Lemma E_scale {A} (p : law A) c f : E p (fun a => c * f a) = c * E p f.
Proof. unfold E. rewrite <- total_map_scale. apply total_map_ext, Forall_forall. intros; ring. Qed.
Lemma E_add {A} (p : law A) f g : E p (fun a => f a + g a) = E p f + E p g.
Proof. unfold E. rewrite <- total_map_add. apply total_map_ext, Forall_forall. intros; ring. Qed.
Lemma E_ext {A} (p : law A) f g : (forall a, f a = g a) -> E p f = E p g.
Proof. intro h. apply total_map_ext, Forall_forall. intros a _. rewrite h. reflexivity. Qed.
Lemma below_true c x : x < c -> below c x = 1.
Proof. intro. unfold below. destruct (Rlt_dec x c); [reflexivity | contradiction]. Qed.
Lemma below_false c x : c <= x -> below c x = 0.
Proof. intro. unfold below. destruct (Rlt_dec x c); [lra | reflexivity]. Qed.
Lemma below_range c x : 0 <= below c x <= 1.
Proof. unfold below. destruct (Rlt_dec x c); lra. Qed.

(* --- expectations ----------------------------------------------------------------------------------------------------- *)
Lemma ex_ext {O} (e : expectation O) f g : (forall o, f o = g o) -> ex e f = ex e g.
Proof. intro h. f_equal. apply FunctionalExtensionality.functional_extensionality, h. Qed.
Lemma has_ext {O} (e : expectation O) f g : (forall o, f o = g o) -> has e f -> has e g.
Proof. intros h. rewrite (FunctionalExtensionality.functional_extensionality f g h). auto. Qed.
Lemma has_scale {O} (e : expectation O) c f : has e f -> has e (fun o => c * f o).
Proof. intro h. eapply has_ext; [|apply (has_linear e c 0 f f h h)]. intro; simpl; ring. Qed.
Lemma ex_scale {O} (e : expectation O) c f : has e f -> ex e (fun o => c * f o) = c * ex e f.
Proof. intro h. rewrite (ex_ext e _ (fun o => c * f o + 0 * f o)) by (intro; ring).
  rewrite ex_linear by assumption. ring. Qed.
Lemma has_add {O} (e : expectation O) f g : has e f -> has e g -> has e (fun o => f o + g o).
Proof. intros h k. eapply has_ext; [|apply (has_linear e 1 1 f g h k)]. intro; simpl; ring. Qed.
Lemma ex_add {O} (e : expectation O) f g : has e f -> has e g -> ex e (fun o => f o + g o) = ex e f + ex e g.
Proof. intros. rewrite (ex_ext e _ (fun o => 1 * f o + 1 * g o)) by (intro; ring).
  rewrite ex_linear by assumption. ring. Qed.

Lemma ex_at_least {O} (e : expectation O) f c : has e f -> (forall o, c <= f o) -> c <= ex e f.
Proof.
  intros h le. assert (p : 0 <= ex e (fun o => 1 * f o + 1 * (- c))).
  { apply ex_positive; [apply has_linear; [exact h | apply has_constant]|]. intro o. specialize (le o). lra. }
  rewrite (ex_linear e 1 1 _ _ h (has_constant e (- c))), ex_constant in p. lra.
Qed.

(* a finite law is an expectation *)
Definition of_law {A : Type} (p : law A) (h : lawful p) : expectation A.
Proof.
  refine {| has := fun _ => True; ex := E p |}; auto.
  - intro c. apply E_constant; exact h.
  - intros. rewrite E_add, !E_scale. reflexivity.
  - intros f _ pos. destruct h as [n _]. replace 0 with (E p (fun _ => 0)).
    + apply E_le; assumption.
    + unfold E. rewrite (total_map_ext _ (fun a => 0 * 1)) by (apply Forall_forall; intros; ring).
      rewrite total_map_scale. ring.
Defined.

Ltac norm_of := apply norm_is; [try lra | unfold square, dot; simpl; lra].
Ltac lawful_by := split; [repeat constructor; simpl; lra | simpl; lra].
Lemma share_pos d k : (0 < k)%nat -> (0 < d)%nat -> 0 < share d k.
Proof. intros. apply Rdiv_lt_0_compat; apply lt_0_INR; assumption. Qed.
Lemma share_le d k : (k <= d)%nat -> (0 < d)%nat -> share d k <= 1.
Proof. intros l d0. apply (Rmult_le_reg_r (INR d)); [apply lt_0_INR; exact d0|].
  unfold share, Rdiv. rewrite Rmult_assoc, Rinv_l by (apply not_0_INR; lia). rewrite Rmult_1_r, Rmult_1_l. apply le_INR, l. Qed.
Lemma share_lt d k : (k < d)%nat -> share d k < 1.
Proof. intros l. assert (0 < INR d) by (apply lt_0_INR; lia). apply (Rmult_lt_reg_r (INR d)); [assumption|].
  unfold share, Rdiv. rewrite Rmult_assoc, Rinv_l by lra. rewrite Rmult_1_r, Rmult_1_l. apply lt_INR, l. Qed.
Lemma masked_norm_upper d k u : (0 < k <= d)%nat -> length u = d ->
  avg (masks d k) (fun m => norm (mask m u)) <= sqrt (share d k) * norm u.
Proof.
  intros [k0 kd] e. apply Rsqr_incr_0_var.
  - unfold Rsqr. eapply Rle_trans; [apply avg_square, masks_some; lia|].
    rewrite (avg_ext _ _ (fun m => square (mask m u))) by (apply Forall_forall; intros; apply norm_norm).
    rewrite masked_square by lia. pose proof (share_pos d k k0 ltac:(lia)).
    replace (sqrt (share d k) * norm u * (sqrt (share d k) * norm u))
      with (sqrt (share d k) * sqrt (share d k) * (norm u * norm u)) by ring.
    rewrite sqrt_sqrt, norm_norm by lra. lra.
  - apply Rmult_le_pos; [apply sqrt_pos | apply norm_nonneg].
Qed.
Lemma avg_nonneg {A} (l : list A) f : Forall (fun a => 0 <= f a) l -> 0 <= avg l f.
Proof. intro h. destruct l; [unfold avg; simpl; lra|]. rewrite <- (avg_constant (a :: l) 0) by discriminate. apply avg_le; exact h. Qed.
Lemma chance_range p c f : lawful p -> 0 <= chance p c f <= 1.
Proof.
  intros [n one]. unfold chance. split.
  - replace 0 with (E p (fun _ : vec => 0)) by (apply E_constant; split; assumption).
    apply E_le; [exact n|]. intros; apply below_range.
  - replace 1 with (E p (fun _ : vec => 1)) by (apply E_constant; split; assumption).
    apply E_le; [exact n|]. intros; apply below_range.
Qed.
Lemma below_le c x y : x <= y -> below c y <= below c x.
Proof. intro. unfold below. destruct (Rlt_dec x c), (Rlt_dec y c); lra. Qed.
Lemma chance_mask p c m : lawful p -> chance p c (fun v => v) <= chance p c (mask m).
Proof. intros [n _]. apply E_le; [exact n|]. intro v. apply below_le, norm_mask. Qed.

(* --- mean vectors ------------------------------------------------------------------------------------------------------ *)
Lemma length_mean_vector d p f : Forall (fun a => length (f (snd a)) = d) p -> length (mean_vector d p f) = d.
Proof. intro F. apply length_sum, Forall_map. eapply Forall_impl; [|exact F]. simpl; intros. rewrite length_scale; assumption. Qed.
Lemma dot_sum d vs u : Forall (fun v => length v = d) vs -> dot (sum d vs) u = total (map (fun v => dot v u) vs).
Proof.
  induction 1; [apply dot_zero|]. change (sum d (x :: l)) with (add x (sum d l)).
  rewrite dot_add by (rewrite length_sum; assumption). rewrite IHForall. reflexivity.
Qed.
Lemma dot_mean d p f u : Forall (fun a => length (f (snd a)) = d) p -> dot (mean_vector d p f) u = E p (fun v => dot (f v) u).
Proof.
  intro F. unfold mean_vector. rewrite dot_sum.
  - rewrite map_map. apply total_map_ext, Forall_forall. intros. apply dot_scale.
  - apply Forall_map. eapply Forall_impl; [|exact F]. simpl; intros. rewrite length_scale; assumption.
Qed.
Lemma mask_zero m d : mask m (zero d) = zero (min (length m) d).
Proof. revert d; induction m as [|b m IH]; intros [|d]; try reflexivity. simpl. rewrite IH. destruct b; reflexivity. Qed.
Lemma mask_sum d m vs : length m = d -> mask m (sum d vs) = sum d (map (mask m) vs).
Proof.
  intro e. induction vs as [|v vs IH]; simpl; [rewrite mask_zero, e, Nat.min_id; reflexivity|].
  rewrite mask_add. f_equal. exact IH.
Qed.

(* --- noise ------------------------------------------------------------------------------------------------------------- *)
Section Noise.
Variables (O : Type) (e : expectation O) (n : nat -> O -> R).
Hypothesis (nz : unit_noise e n).
Definition from (i d : nat) (o : O) : vec := map (fun j => n j o) (seq i d).
Lemma length_noise d o : length (noise n d o) = d.
Proof. unfold noise. rewrite map_length, seq_length. reflexivity. Qed.
Lemma noisy_from s m : forall i a, length a = length m ->
  has e (fun o => square (add a (mask m (scale s (from i (length m) o))))) /\
  ex e (fun o => square (add a (mask m (scale s (from i (length m) o))))) = square a + s ^ 2 * INR (ones m).
Proof.
  destruct nz as (h1 & m1 & h2 & m2).
  induction m as [|b m IH]; intros i [|x a] l; try discriminate.
  - unfold square, dot, ones; simpl. split; [apply has_constant|]. rewrite ex_constant. lra.
  - injection l as l. destruct (IH (S i) a l) as [a1 a2]. cbn [length].
    set (F := fun o => square (add a (mask m (scale s (from (S i) (length m) o))))) in *.
    set (c := if b then s else 0).
    assert (q : forall o, 1 * (x * x + 2 * x * c * n i o) + 1 * (c * c * (n i o * n i o) + 1 * F o)
      = square (add (x :: a) (mask (b :: m) (scale s (from i (S (length m)) o))))).
    { intro o. unfold from. cbn [seq map]. fold (from (S i) (length m) o).
      change (scale s (n i o :: from (S i) (length m) o)) with (s * n i o :: scale s (from (S i) (length m) o)).
      cbn [mask]. unfold add. cbn [zip]. rewrite square_cons. unfold F, add, c. destruct b; ring. }
    assert (p1 : has e (fun o => x * x + 2 * x * c * n i o)) by (apply has_add; [apply has_constant | apply has_scale, h1]).
    assert (p2 : has e (fun o => c * c * (n i o * n i o) + 1 * F o)) by (apply has_linear; [apply h2 | exact a1]).
    split; [apply (has_ext e _ _ q), has_linear; assumption|].
    rewrite <- (ex_ext e _ _ q), (ex_linear e 1 1 _ _ p1 p2), (ex_linear e (c * c) 1 _ _ (h2 i i) a1).
    rewrite (ex_add e (fun _ => x * x) _ (has_constant e (x * x)) (has_scale e (2 * x * c) _ (h1 i))), ex_constant, (ex_scale e _ _ (h1 i)).
    rewrite m1, m2, Nat.eqb_refl, a2, square_cons. unfold ones, c. destruct b; simpl count_occ.
    + rewrite S_INR. ring.
    + ring.
Qed.
(* E|a + m (.) s n|^2 = |a|^2 + s^2 (number of ones) *)
Lemma ex_noisy d s m a : length m = d -> length a = d ->
  ex e (fun o => square (add a (mask m (scale s (noise n d o))))) = square a + s ^ 2 * INR (ones m).
Proof. intros em ea. subst d. apply (proj2 (noisy_from s m 0 a ea)). Qed.
Lemma has_noisy d s m a : length m = d -> length a = d ->
  has e (fun o => square (add a (mask m (scale s (noise n d o))))).
Proof. intros em ea. subst d. apply (proj1 (noisy_from s m 0 a ea)). Qed.
(* of a polynomial in the first two draws *)
Lemma ex_two c a b p q r : ex e (fun o => c + a * n 0 o + b * n 1 o + p * (n 0 o * n 0 o) + q * (n 1 o * n 1 o) + r * (n 0 o * n 1 o)) = c + p + q.
Proof.
  destruct nz as (h1 & m1 & h2 & m2).
  assert (g : has e (fun o => c + a * n 0%nat o)) by (apply has_add; [apply has_constant | apply has_scale, h1]).
  assert (g1 : has e (fun o => c + a * n 0%nat o + b * n 1%nat o)) by (apply has_add; [exact g | apply has_scale, h1]).
  assert (g2 : has e (fun o => c + a * n 0%nat o + b * n 1%nat o + p * (n 0%nat o * n 0%nat o))) by (apply has_add; [exact g1 | apply has_scale, h2]).
  assert (g3 : has e (fun o => c + a * n 0%nat o + b * n 1%nat o + p * (n 0%nat o * n 0%nat o) + q * (n 1%nat o * n 1%nat o))) by (apply has_add; [exact g2 | apply has_scale, h2]).
  rewrite (ex_add e _ _ g3 (has_scale e r _ (h2 0%nat 1%nat))), (ex_add e _ _ g2 (has_scale e q _ (h2 1%nat 1%nat))).
  rewrite (ex_add e _ _ g1 (has_scale e p _ (h2 0%nat 0%nat))), (ex_add e _ _ g (has_scale e b _ (h1 1%nat))).
  rewrite (ex_add e (fun _ => c) _ (has_constant e c) (has_scale e a _ (h1 0%nat))), ex_constant.
  rewrite (ex_scale e a _ (h1 0%nat)), (ex_scale e b _ (h1 1%nat)), (ex_scale e p _ (h2 0%nat 0%nat)), (ex_scale e q _ (h2 1%nat 1%nat)), (ex_scale e r _ (h2 0%nat 1%nat)).
  rewrite !m1, !m2. simpl. ring.
Qed.
End Noise.
Lemma mask_all v : mask (repeat true (length v)) v = v.
Proof. induction v; simpl; [|rewrite IHv]; reflexivity. Qed.
Lemma ones_all d : ones (repeat true d) = d.
Proof. unfold ones. induction d; simpl; [|rewrite IHd]; reflexivity. Qed.
Lemma mask_twice m v : mask m (mask m v) = mask m v.
Proof. revert v; induction m as [|b m IH]; intros [|a v]; try reflexivity. simpl. rewrite IH. destruct b; reflexivity. Qed.
Lemma clipped_off C v : 0 <= C -> norm (sub (clip C v) v) = Rmax (norm v - C) 0.
Proof.
  intro C0. assert (e : forall c, sub (scale c v) v = scale (c - 1) v).
  { intro c. induction v as [|a v IH]; [reflexivity|]. unfold sub, scale in *; simpl. rewrite IH. f_equal. ring. }
  destruct (Rle_dec (norm v) C) as [le|gt].
  - rewrite clip_short, Rmax_right by lra. rewrite <- (scale_one v) at 1. rewrite e, norm_scale. replace (1 - 1) with 0 by ring.
    rewrite Rabs_R0. ring.
  - rewrite clip_long, e, norm_scale, Rmax_left by lra. assert (0 < norm v) by lra.
    replace (C / norm v - 1) with (- ((norm v - C) / norm v)) by (field; lra). rewrite Rabs_Ropp, Rabs_pos_eq.
    + field; lra.
    + apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra].
Qed.
Lemma clip_at C v n c : 0 < n -> square v = n * n -> c = Rmin 1 (C / n) -> clip C v = scale c v.
Proof. intros n0 e ->. unfold clip. rewrite (norm_is v n) by (try lra; exact e). reflexivity. Qed.
Lemma least_of C n c : 0 < n -> (C <= n /\ c = C / n) \/ (n <= C /\ c = 1) -> c = Rmin 1 (C / n).
Proof.
  intros n0 [[l ->]|[l ->]]; symmetry; [apply Rmin_right | apply Rmin_left]; apply (Rmult_le_reg_r n); try lra;
  unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra.
Qed.
Ltac clips C v n c := rewrite (clip_at C v n c) by (try lra; try (unfold square, dot; simpl; lra); apply least_of; lra).
Lemma avg_same {A} (l : list A) f c : l <> [] -> (forall a, In a l -> f a = c) -> avg l f = c.
Proof. intros ne h. rewrite <- (avg_constant l c ne). apply avg_ext, Forall_forall, h. Qed.
Lemma in_masks d k m : In m (masks d k) -> length m = d /\ ones m = k.
Proof. intro i. split; [apply (proj1 (Forall_forall _ _) (masks_length d k) m i) | apply (proj1 (Forall_forall _ _) (masks_ones d k) m i)]. Qed.
Lemma ones_le m : (ones m <= length m)%nat.
Proof. apply count_occ_bound. Qed.
(* one example: clipping after the mask leaves more *)
Lemma norm_masked_clip C m g : 0 < C -> norm (mask m (clip C g)) <= norm (clip C (mask m g)).
Proof.
  intro C0. unfold clip. rewrite mask_scale, !norm_scale. pose proof (norm_nonneg (mask m g)) as a. pose proof (norm_mask m g) as b.
  destruct (Req_dec (norm (mask m g)) 0) as [z|nz]; [rewrite z, !Rmult_0_r; lra|].
  apply Rmult_le_compat_r; [exact a|].
  assert (0 < C / norm g) by (apply Rdiv_lt_0_compat; lra). assert (0 < C / norm (mask m g)) by (apply Rdiv_lt_0_compat; lra).
  assert (C / norm g <= C / norm (mask m g)) by (apply Rmult_le_compat_l; [lra | apply Rinv_le_contravar; lra]).
  rewrite !Rabs_pos_eq by (apply Rmin_glb; lra). apply Rmin_glb; [apply Rmin_l|]. eapply Rle_trans; [apply Rmin_r | assumption].
Qed.

(* --- angles ------------------------------------------------------------------------------------------------------------ *)
Lemma cosine_range u v : -1 <= cosine u v <= 1.
Proof.
  unfold cosine. pose proof (norm_nonneg u). pose proof (norm_nonneg v). set (N := norm u * norm v).
  assert (0 <= N) by (unfold N; nra). destruct (Req_dec N 0) as [z|nz].
  { assert (dot u v = 0). { pose proof (cauchy_schwarz_square u v) as c. rewrite <- (norm_norm u), <- (norm_norm v) in c. unfold N in z. nra. }
    rewrite H2. unfold Rdiv. rewrite Rmult_0_l. lra. }
  assert (0 < N) by lra. assert (b : Rabs (dot u v) <= N).
  { apply Rsqr_incr_0_var; [|lra]. rewrite <- Rsqr_abs. unfold Rsqr, N. pose proof (cauchy_schwarz_square u v) as c.
    rewrite <- (norm_norm u), <- (norm_norm v) in c. lra. }
  apply Rabs_le_between in b || (apply Rabs_def2 in b; fail) || idtac.
  assert (- N <= dot u v <= N) by (unfold Rabs in b; destruct (Rcase_abs (dot u v)); lra).
  split; apply (Rmult_le_reg_r N); try lra; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra.
Qed.
Lemma cos_angle u v : cos (angle u v) = cosine u v.
Proof. apply cos_acos. apply cosine_range. Qed.
Lemma angle_range u v : 0 <= angle u v <= PI.
Proof. apply acos_bound. Qed.
Lemma angle_lt u v u' v' : cosine u' v' < cosine u v <-> angle u v < angle u' v'.
Proof.
  rewrite <- !cos_angle. pose proof (angle_range u v). pose proof (angle_range u' v'). split; intro h.
  - apply cos_decreasing_0; lra.
  - apply cos_decreasing_1; lra.
Qed.
Lemma angle_le u v u' v' : cosine u' v' <= cosine u v <-> angle u v <= angle u' v'.
Proof. pose proof (angle_lt u' v' u v) as [a b]. split; intro h; apply Rnot_lt_le; intro k; [apply b in k | apply a in k]; lra. Qed.
Lemma norm_pos v : 0 < square v -> 0 < norm v.
Proof. apply sqrt_lt_R0. Qed.
Lemma cosine_le c u v : 0 < square u -> 0 < square v -> 0 <= c -> dot u v * dot u v <= c * c * (square u * square v) -> cosine u v <= c.
Proof.
  intros a b c0 h. pose proof (norm_pos u a). pose proof (norm_pos v b). assert (N : 0 < norm u * norm v) by nra.
  apply (Rmult_le_reg_r (norm u * norm v)); [exact N|]. unfold cosine, Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  apply Rsqr_incr_0_var; [|nra]. unfold Rsqr.
  replace (c * (norm u * norm v) * (c * (norm u * norm v))) with (c * c * ((norm u * norm u) * (norm v * norm v))) by ring.
  rewrite !norm_norm. exact h.
Qed.
Lemma cosine_ge c u v : 0 < square u -> 0 < square v -> 0 <= c -> 0 <= dot u v -> c * c * (square u * square v) <= dot u v * dot u v -> c <= cosine u v.
Proof.
  intros a b c0 d0 h. pose proof (norm_pos u a). pose proof (norm_pos v b). assert (N : 0 < norm u * norm v) by nra.
  apply (Rmult_le_reg_r (norm u * norm v)); [exact N|]. unfold cosine, Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  apply Rsqr_incr_0_var; [|exact d0]. unfold Rsqr.
  replace (c * (norm u * norm v) * (c * (norm u * norm v))) with (c * c * ((norm u * norm u) * (norm v * norm v))) by ring.
  rewrite !norm_norm. exact h.
Qed.
Lemma cosine_opp u v : cosine u (scale (-1) v) = - cosine u v.
Proof. unfold cosine. rewrite norm_scale, (dot_comm u (scale (-1) v)), dot_scale, (dot_comm v u), Rabs_left by lra. replace (- (-1) * norm v) with (norm v) by ring.
  unfold Rdiv. ring. Qed.

(* --- |w|^2 / 2, whose gradient is w -------------------------------------------------------------------------------------- *)
Lemma quadratic_smooth d : smooth d 1 (fun u => square u / 2) (fun u => u).
Proof.
  split; [split; [auto|]|].
  - intros u v eu ev eps e0.
    assert (q : forall t, square (add u (scale t v)) = square u + 2 * t * dot u v + t * t * square v).
    { intro t. rewrite square_add by (rewrite length_scale; congruence). rewrite (dot_comm u (scale t v)), dot_scale, square_scale, (dot_comm v u). ring. }
    pose proof (square_nonneg v) as s0. assert (d0 : 0 < eps / (square v + 1)) by (apply Rdiv_lt_0_compat; lra).
    exists (mkposreal _ d0). intros h h0 hd. simpl in hd. rewrite !q.
    replace (((square u + 2 * (0 + h) * dot u v + (0 + h) * (0 + h) * square v) / 2 - (square u + 2 * 0 * dot u v + 0 * 0 * square v) / 2) / h - dot u v)
      with (h * (square v / 2)) by (field; exact h0).
    rewrite Rabs_mult, (Rabs_pos_eq (square v / 2)) by lra.
    apply Rle_lt_trans with (eps / (square v + 1) * (square v / 2)); [apply Rmult_le_compat_r; lra|].
    apply (Rmult_lt_reg_r (square v + 1)); [lra|]. replace (eps / (square v + 1) * (square v / 2) * (square v + 1)) with (eps * (square v / 2)) by (field; lra). nra.
  - intros. rewrite Rmult_1_l. apply Rle_refl.
Qed.
Lemma quadratic_least d : least d (fun u => square u / 2) 0.
Proof.
  split; [exists (zero d); split; [apply length_zero | unfold square; rewrite dot_zero; lra]|].
  intros u _. pose proof (square_nonneg u). lra.
Qed.
Lemma cosine_neg u v : 0 < square u -> 0 < square v -> dot u v <= 0 -> cosine u v <= 0.
Proof. intros a b h. assert (N : 0 < norm u * norm v) by (pose proof (norm_pos u a); pose proof (norm_pos v b); nra).
  apply (Rmult_le_reg_r (norm u * norm v)); [exact N|]. unfold cosine, Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. lra. Qed.
Lemma cosine_posi u v : 0 < square u -> 0 < square v -> 0 < dot u v -> 0 < cosine u v.
Proof. intros a b h. apply Rdiv_lt_0_compat; [exact h|]. pose proof (norm_pos u a); pose proof (norm_pos v b); nra. Qed.
Lemma square_app u v : square (u ++ v) = square u + square v.
Proof. induction u as [|a u IH]; simpl; [unfold square, dot; simpl; ring|]. rewrite !square_cons, IH. ring. Qed.
Lemma sub_same u s : length u = length s -> sub (add u s) s = u.
Proof. revert s; induction u as [|a u IH]; intros [|b s] l; try discriminate; [reflexivity|]. unfold sub, add in *; simpl.
  rewrite IH by (simpl in l; lia). f_equal. lra. Qed.
Lemma sub_both u v s : length u = length s -> length v = length s -> sub (add u s) (add v s) = sub u v.
Proof. revert v s; induction u as [|a u IH]; intros [|c v] [|b s] l l'; try discriminate; [reflexivity|]. unfold sub, add in *; simpl.
  rewrite IH by (simpl in *; lia). f_equal. lra. Qed.

(* --- index sets ---------------------------------------------------------------------------------------------------------- *)
Lemma distance_self a : distance a a = O.
Proof. induction a as [|x a IH]; simpl; [reflexivity|]. rewrite Bool.eqb_reflx, IH. reflexivity. Qed.
Lemma distance_comm a b : distance a b = distance b a.
Proof. revert b; induction a as [|x a IH]; intros [|y b]; simpl; try reflexivity. rewrite IH. destruct x, y; reflexivity. Qed.
Lemma distance_triangle a b c : length a = length b -> length b = length c -> (distance a c <= distance a b + distance b c)%nat.
Proof.
  revert b c; induction a as [|x a IH]; intros [|y b] [|z c] l l'; try discriminate; simpl; [lia|].
  specialize (IH b c ltac:(simpl in l; lia) ltac:(simpl in l'; lia)). destruct x, y, z; simpl; lia.
Qed.
(* a sum over the index sets that depends on the distance alone does not depend on the order of the reference *)
Lemma over_masks_skip x l l' : (forall k F, over_masks (length l) k (fun m => F (distance m l)) = over_masks (length l') k (fun m => F (distance m l'))) ->
  forall k F, over_masks (S (length l)) k (fun m => F (distance m (x :: l))) = over_masks (S (length l')) k (fun m => F (distance m (x :: l'))).
Proof.
  intros IH [|k] F.
  - rewrite !over_masks_none. cbn [distance]. apply (IH O (fun n => F ((if Bool.eqb false x then 0 else 1) + n)%nat)).
  - rewrite !over_masks_step. cbn [distance]. f_equal.
    + apply (IH k (fun n => F ((if Bool.eqb true x then 0 else 1) + n)%nat)).
    + apply (IH (S k) (fun n => F ((if Bool.eqb false x then 0 else 1) + n)%nat)).
Qed.
Lemma over_masks_swap x y l k F : over_masks (S (S (length l))) k (fun m => F (distance m (y :: x :: l)))
  = over_masks (S (S (length l))) k (fun m => F (distance m (x :: y :: l))).
Proof.
  destruct k as [|[|k]].
  - rewrite !over_masks_none. apply over_masks_ext. intro m. cbn [distance]. f_equal. lia.
  - rewrite !over_masks_step, !over_masks_none. cbn [distance]. destruct x, y; simpl; ring.
  - rewrite !over_masks_step. cbn [distance]. destruct x, y; simpl; ring.
Qed.
Lemma over_masks_perm l l' : Permutation l l' -> forall k F,
  over_masks (length l) k (fun m => F (distance m l)) = over_masks (length l') k (fun m => F (distance m l')).
Proof.
  induction 1 as [|x l l' p IH|x y l|l l' l'' p IH p' IH']; intros k F.
  - reflexivity.
  - apply over_masks_skip, IH.
  - apply over_masks_swap.
  - rewrite IH. apply IH'.
Qed.
Lemma same_ones_perm d k I J : In I (masks d k) -> In J (masks d k) -> Permutation I J.
Proof.
  intros i j. destruct (in_masks _ _ _ i) as [l o], (in_masks _ _ _ j) as [l' o'].
  assert (t : forall m, (count_occ bool_dec m true + count_occ bool_dec m false = length m)%nat) by (induction m as [|[] m IH]; simpl; lia).
  apply (Permutation_count_occ bool_dec). intros [].
  - unfold ones in *. congruence.
  - pose proof (t I). pose proof (t J). unfold ones in *. lia.
Qed.
Lemma over_masks_reference d k I J F : In I (masks d k) -> In J (masks d k) ->
  over_masks d k (fun m => F (distance m I)) = over_masks d k (fun m => F (distance m J)).
Proof.
  intros i j. pose proof (over_masks_perm I J (same_ones_perm d k I J i j) k F) as h.
  destruct (in_masks _ _ _ i) as [l _], (in_masks _ _ _ j) as [l' _]. rewrite l, l' in h. exact h.
Qed.
Lemma over_masks_pos d k f : (k <= d)%nat -> (forall m, 0 < f m) -> 0 < over_masks d k f.
Proof.
  intros l h. unfold over_masks. pose proof (masks_some d k l). destruct (masks d k) as [|m t]; [congruence|].
  cbn [map total fold_right]. assert (0 <= total (map f t)).
  { replace 0 with (total (map (fun _ : list bool => 0) t)) by (rewrite total_constant; ring). apply total_map_le, Forall_forall. intros x _. left; apply h. }
  specialize (h m). unfold total in *. lra.
Qed.
Lemma E_total {A B} (p : law A) (F : B -> A -> R) (l : list B) : E p (fun a => total (map (fun b => F b a) l)) = total (map (fun b => E p (F b)) l).
Proof.
  induction l as [|b l IH]; simpl.
  - unfold E. rewrite (total_map_ext _ (fun a => 0 * 1)) by (apply Forall_forall; intros; ring). rewrite total_map_scale. ring.
  - rewrite E_add. unfold total in *. rewrite IH. reflexivity.
Qed.
Lemma total_ge {A} (l : list A) f c : Forall (fun a => c <= f a) l -> INR (length l) * c <= total (map f l).
Proof. intro h. rewrite <- total_constant. apply total_map_le, h. Qed.
